//! Sources: who may send events, and how a sender proves itself.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

#[cfg(feature = "schema")]
use super::schema;
use super::text_or_map::text_or_map;
use super::{Field, File, Flows, Hmac, Problem, Problems, parse::Size};
#[cfg(feature = "schema")]
use crate::base::time::DurationText;
use crate::base::time::duration;
use crate::base::wrong::{Wrong, step};
use crate::limits::rates::Rate;

/// The largest difference between a sender's clock and ours, unless its source names another.
const TOLERANCE: Duration = Duration::from_secs(300);

/// A source: how a sender proves itself, and what it may send.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The scheme by which the source signs its deliveries.
    pub scheme: Scheme,
    /// The largest difference between the sender's clock and ours, where the scheme signs the time; 5m without it.
    /// [`Source::tolerance`] has the value that is in force.
    #[serde(default, deserialize_with = "some_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationText>"), serde(serialize_with = "schema::some"))]
    pub tolerance: Option<Duration>,
    /// The largest body that the source may send, in bytes.
    #[serde(with = "Size")]
    pub max_body: usize,
    /// The highest rate of the source's events.
    pub rate: Rate,
    /// The field of the body that names the event's type.
    pub type_at: Field,
    /// The place of the provider's own id of an event. A key reads it as `$id`.
    #[serde(default)]
    pub id_at: Option<IdAt>,
    /// The standard in which the source wraps its events.
    #[serde(default)]
    pub envelope: Envelope,
    /// The field of a form that holds the event as JSON, for a sender that posts forms.
    #[serde(default)]
    pub form: Option<String>,
}

impl Source {
    /// The largest difference between the sender's clock and ours: five minutes, unless the source names another.
    pub fn tolerance(&self) -> Duration {
        self.tolerance.unwrap_or(TOLERANCE)
    }
}

/// The standard in which a source wraps its events. The source says it once: no scheme signs the headers that could
/// say it of one delivery, and one captured body must not be two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Envelope {
    /// None: the body is the event. So is the body of a CloudEvent in binary mode.
    #[default]
    None,
    /// CloudEvents 1.0 in structured mode.
    Cloudevents,
}

/// The place of the provider's own id of an event. Only signed content will do: an attacker who could alter
/// the id could pass one event for two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdAt {
    /// A field of the body.
    Field(Field),
    /// A header that the scheme signs.
    Header {
        /// The header's name.
        header: String,
    },
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct InHeader {
    header: String,
}

impl From<Field> for IdAt {
    fn from(field: Field) -> Self {
        IdAt::Field(field)
    }
}

impl From<InHeader> for IdAt {
    fn from(InHeader { header }: InHeader) -> Self {
        IdAt::Header { header }
    }
}

impl<'de> Deserialize<'de> for IdAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_map::<_, Field, InHeader, _>(deserializer, "a field, as `data.id`, or `{header: webhook-id}`")
    }
}

/// The scheme by which a source signs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Standard Webhooks: <https://www.standardwebhooks.com>
    StandardWebhooks,
    /// Stripe's scheme: `Stripe-Signature: t=…,v1=…`
    Stripe,
    /// GitHub's scheme: `X-Hub-Signature-256: sha256=…`
    Github,
    /// Shopify's scheme: `X-Shopify-Hmac-Sha256: …`
    Shopify,
    /// Slack's scheme: `X-Slack-Signature: v0=…`
    Slack,
    /// An HMAC in a header, in the sender's own way.
    Hmac(Hmac),
    /// No signature, so that anybody may send as this source. For local development: [`Flows::deployable`] rejects it.
    None,
}

impl Scheme {
    /// Whether the scheme signs a header.
    fn signs_header(&self, name: &str) -> bool {
        *self == Scheme::StandardWebhooks && name.eq_ignore_ascii_case("webhook-id")
    }

    /// Whether the scheme signs the time of signing.
    pub fn signs_time(&self) -> bool {
        match self {
            Scheme::StandardWebhooks | Scheme::Stripe | Scheme::Slack => true,
            Scheme::Hmac(hmac) => hmac.timestamp.is_some(),
            Scheme::Github | Scheme::Shopify | Scheme::None => false,
        }
    }
}

impl Flows {
    /// Checks that the flows, read from these files, may run where strangers reach them: every source must sign. Local
    /// development may do without.
    pub fn deployable(&self, files: &[File]) -> Result<(), Problems> {
        let unsigned = self.sources.iter().filter(|(_, source)| source.scheme == Scheme::None);
        let wrong = unsigned.map(|(name, _)| {
            let what = format!("source `{name}` has the scheme none: anybody could send in its name");
            Wrong::at(step(name) + "/scheme", what)
        });
        let problems: Vec<Problem> = wrong.map(|wrong| Problem::locate(files, "sources.yaml", &wrong)).collect();
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The mistakes in the sources.
    pub(super) fn check_sources(&self) -> Vec<Wrong> {
        let sources = self.sources.iter();
        sources.flat_map(|(name, source)| source.check(name).map(|wrong| wrong.under(&step(name)))).collect()
    }
}

/// The largest body: it travels in one message and is kept in one item, each with some wrapping.
const MAX_BODY: usize = 256 * 1024;

impl Source {
    /// The mistakes in a source. A tolerance that nothing enforces would promise a protection that is not there.
    fn check(&self, name: &str) -> impl Iterator<Item = Wrong> {
        let idle = self.tolerance.is_some() && !self.scheme.signs_time();
        let unsigned = matches!(&self.id_at, Some(IdAt::Header { header }) if !self.scheme.signs_header(header));
        let large = self.max_body > MAX_BODY;
        let wrapped_twice = self.form.is_some() && self.envelope != Envelope::None;
        [
            (idle, "/tolerance", "has a tolerance, but its scheme signs no timestamp"),
            (unsigned, "/id_at", "takes its id from a header that its scheme does not sign"),
            (large, "/max_body", "may send at most 256KiB"),
            (wrapped_twice, "/envelope", "has a form and an envelope: a form's field holds the event itself"),
        ]
        .into_iter()
        .filter(|(wrong, ..)| *wrong)
        .map(move |(_, at, what)| Wrong::at(at, format!("source `{name}` {what}")))
    }
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::{Algorithm, Encoding};

    fn files(source: &str) -> [File; 1] {
        let text = format!("shop:\n  max_body: 64KiB\n  rate: 10/s\n  type_at: type\n{source}");
        [File { path: "sources.yaml".into(), text }]
    }

    fn flows(source: &str) -> Result<Flows, Problems> {
        Flows::parse(&files(source))
    }

    fn source(text: &str) -> Source {
        flows(text).expect("a good source").source("shop").expect("it is there").clone()
    }

    fn refusal(text: &str) -> String {
        flows(text).expect_err(text).to_string()
    }

    #[test]
    fn reads_every_scheme() {
        for (name, scheme) in [
            ("standard-webhooks", Scheme::StandardWebhooks),
            ("stripe", Scheme::Stripe),
            ("github", Scheme::Github),
            ("shopify", Scheme::Shopify),
            ("slack", Scheme::Slack),
            ("none", Scheme::None),
        ] {
            assert_eq!(source(&format!("  scheme: {name}")).scheme, scheme);
        }
        let hmac = Hmac {
            header: "X-Signature".into(),
            algorithm: Algorithm::Sha512,
            encoding: Encoding::Base64,
            prefix: "".into(),
            timestamp: None,
        };
        let text = "  scheme: {hmac: {header: X-Signature, algorithm: sha512, encoding: base64}}";
        assert_eq!(source(text).scheme, Scheme::Hmac(hmac));
    }

    #[test]
    fn a_tolerance_is_five_minutes_unless_the_source_says_otherwise() {
        assert_eq!(source("  scheme: stripe").tolerance(), Duration::from_secs(300));
        assert_eq!(source("  scheme: stripe\n  tolerance: 30s").tolerance(), Duration::from_secs(30));
    }

    #[test]
    fn refuses_a_tolerance_that_nothing_enforces() {
        let hmac = "{hmac: {header: X-Signature, algorithm: sha256, encoding: hex}}";
        for scheme in ["github", "shopify", "none", hmac] {
            let refusal = refusal(&format!("  scheme: {scheme}\n  tolerance: 5m"));
            assert_eq!(refusal, "sources.yaml:6:14: source `shop` has a tolerance, but its scheme signs no timestamp");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in [
            "",
            "  scheme: Stripe",
            "  scheme: paypal",
            "  scheme: hmac",
            "  scheme: {stripe: {tolerance: 5m}}",
            "  scheme: stripe\n  secret: whsec_in_a_file",
        ] {
            assert!(refusal(text).starts_with("sources.yaml:"), "{text}");
        }
    }

    #[test]
    fn only_a_source_that_signs_may_be_deployed() {
        let deployable = |text| flows(text).expect("it parses").deployable(&files(text));
        assert_eq!(deployable("  scheme: github"), Ok(()));
        let refused = deployable("  scheme: none").expect_err("it is not signed");
        let sentence = "sources.yaml:5:11: source `shop` has the scheme none: anybody could send in its name";
        assert_eq!(refused.to_string(), sentence);
    }
}
