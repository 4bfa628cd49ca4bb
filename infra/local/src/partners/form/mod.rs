//! The forms in which partners answer, as their documentation shows them: what was done, what is known, and errors.
//!
//! A form is chosen by what the integration `uses`. It also knows how its partner recognises a repetition: by a header, by
//! a field, by the thing itself, or not at all. What the forms cannot do that the partners can: check a request (Prism
//! does, see `make partners`), limit rates, or forget a key.

mod messages;
mod records;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::call::IncomingCall;

/// The form of a partner's answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartnerForm {
    /// Any API: an id, under the key of the header `Idempotency-Key`.
    #[default]
    Plain,
    Hubspot,
    Klaviyo,
    MailchimpMarketing,
    MailchimpTransactional,
    Sendgrid,
    Shopify,
    Slack,
    Stripe,
    Twilio,
}

/// What a partner says to a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// The body. Null is none at all.
    pub(super) body: Value,
}

impl FormAnswer {
    fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// Something that a call made at a partner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    /// The path of the call, with its query.
    pub(super) path: String,
    /// What the call said.
    pub(super) sent: Value,
    /// The partner's record of it.
    pub(super) record: Value,
}

/// What becomes of a call that is not told to fail.
pub(super) enum Handled {
    /// It is done, makes this record, and is answered so.
    Does(Value, FormAnswer),
    /// It changes nothing: a question, or something that the partner declines.
    Tells(FormAnswer),
}

impl PartnerForm {
    /// The form of the partner of the catalogue that an integration uses.
    pub(super) fn of(uses: Option<&str>) -> Self {
        match uses {
            Some("hubspot") => Self::Hubspot,
            Some("klaviyo") => Self::Klaviyo,
            Some("mailchimp-marketing") => Self::MailchimpMarketing,
            Some("mailchimp-transactional") => Self::MailchimpTransactional,
            Some("sendgrid") => Self::Sendgrid,
            Some("shopify") => Self::Shopify,
            Some("slack") => Self::Slack,
            Some("stripe") => Self::Stripe,
            Some("twilio") => Self::Twilio,
            _ => Self::Plain,
        }
    }

    /// The key by which the partner recognises a repetition, if the call has one and the partner honours it.
    pub(super) fn key(self, call: &IncomingCall) -> Option<String> {
        match self {
            Self::Plain | Self::Stripe => call.idempotency_key.clone(),
            Self::Klaviyo => records::klaviyo_key(call),
            Self::Shopify => records::shopify_key(call),
            _ => None,
        }
    }

    /// What the partner makes of the nth call, given what it made before.
    pub(super) fn handle(self, call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
        match self {
            Self::Plain => plain(call, nth, made),
            Self::Hubspot => records::hubspot(call, nth, made),
            Self::Klaviyo => records::klaviyo(call, nth, made),
            Self::MailchimpMarketing => records::mailchimp(call, made),
            Self::Shopify => records::shopify(call, nth, made),
            Self::Stripe => records::stripe(call, nth),
            Self::MailchimpTransactional => messages::mailchimp(call, nth),
            Self::Sendgrid => messages::sendgrid(nth),
            Self::Slack => messages::slack(call, nth, made),
            Self::Twilio => messages::twilio(call, nth, made),
        }
    }

    /// The body of an error with this status.
    pub(super) fn error(self, status: u16) -> Value {
        let told = "the partner stub was told to fail: PUT /_control/<integration> changes that";
        match self {
            Self::Plain => json!({"error": told}),
            Self::Hubspot => records::hubspot_error(status, told),
            Self::Klaviyo => records::klaviyo_error(status, told),
            Self::MailchimpMarketing => records::mailchimp_error(status, told),
            Self::Shopify => records::shopify_error(status, told),
            Self::Stripe => records::stripe_error(status, told),
            Self::MailchimpTransactional => messages::mailchimp_error(status, told),
            Self::Sendgrid => messages::sendgrid_error(told),
            Self::Slack => messages::slack_error(status),
            Self::Twilio => messages::twilio_error(status, told),
        }
    }
}

/// A call makes something with an id; a GET finds what the last call to its path made.
fn plain(call: &IncomingCall, nth: usize, made: &[Made]) -> Handled {
    if call.method == "GET" {
        let found = made.iter().rev().find(|made| made.path == call.path);
        let found = found.map(|made| FormAnswer::new(200, made.record.clone()));
        return Handled::Tells(found.unwrap_or_else(|| FormAnswer::new(404, json!({}))));
    }
    let record = json!({"id": format!("{}_{nth}", call.integration)});
    Handled::Does(record.clone(), FormAnswer::new(200, record))
}

/// An id as partners make them: a prefix and as many hexadecimal digits.
fn hex_id(prefix: &str, nth: usize, digits: usize) -> String {
    format!("{prefix}{nth:0digits$x}")
}
