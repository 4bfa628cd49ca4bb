//! Guards: whether anything is done for an event at all.

use serde_json::{Value, json};

use super::contact::{Fields, Scalar};
use crate::base::time::{Timestamp, within_until};
use crate::flows::template::{Scope, TemplateError};
use crate::flows::{Consent, Guard, QuietHours};

/// A guard's judgement.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// The event goes on.
    Pass,
    /// The guard blocks the event, for these facts. They name no person.
    Block(Value),
    /// The event waits until then.
    Wait(Timestamp),
}

/// A guard's judgement of an event, given its contact's fields. A cap passes here: it is counted
/// with the intent.
pub fn judge(
    guard: &Guard,
    contact: Option<&Fields>,
    scope: &Scope<'_>,
    now: Timestamp,
) -> Result<Judgement, TemplateError> {
    Ok(match guard {
        Guard::Consent(consent) => consented(consent, contact),
        Guard::QuietHours(quiet) => quiet_now(quiet, contact, now),
        Guard::Expression(expression) if expression.that.holds(scope)? => Judgement::Pass,
        Guard::Expression(expression) => Judgement::Block(json!({"not": expression.that.as_str()})),
        Guard::Cap(_) => Judgement::Pass,
    })
}

/// Consent to the channel: a contact that never answered has not consented.
fn consented(consent: &Consent, contact: Option<&Fields>) -> Judgement {
    let Some(fields) = contact else {
        return Judgement::Block(json!({"channel": consent.channel, "contact": "unknown"}));
    };
    match fields.get(&consent.field()) {
        Some(Scalar::Bool(true)) => Judgement::Pass,
        Some(_) => Judgement::Block(json!({"channel": consent.channel, "consent": "withheld"})),
        None => Judgement::Block(json!({"channel": consent.channel, "consent": "never given"})),
    }
}

fn quiet_now(quiet: &QuietHours, contact: Option<&Fields>, now: Timestamp) -> Judgement {
    let zone = match contact.and_then(|fields| fields.get("time_zone")) {
        Some(Scalar::Text(zone)) => zone,
        _ => &quiet.zone,
    };
    within_until(now, quiet.from, quiet.to, zone).map_or(Judgement::Pass, Judgement::Wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIGHT: &str = "2026-11-16T23:00:00Z";

    fn guard(yaml: &str) -> Guard {
        serde_saphyr::from_str(yaml).expect("a guard")
    }

    fn says(yaml: &str, contact: Option<&[(&str, Scalar)]>) -> Judgement {
        let contact: Option<Fields> =
            contact.map(|fields| fields.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect());
        let event = json!({"total": 30});
        let scope = Scope { now: NIGHT.into(), ..Scope::of(&event) };
        let now = Timestamp::parse(NIGHT).expect("a moment");
        judge(&guard(yaml), contact.as_ref(), &scope, now).expect("it can be judged")
    }

    #[test]
    fn silence_is_no_consent() {
        let email = |contact: Option<&[(&str, Scalar)]>| says("consent: {channel: email}", contact);
        assert_eq!(email(Some(&[("consent_email", Scalar::Bool(true))])), Judgement::Pass);
        for (contact, facts) in [
            (None, json!({"channel": "email", "contact": "unknown"})),
            (Some(&[][..]), json!({"channel": "email", "consent": "never given"})),
            (Some(&[("consent_email", Scalar::Bool(false))][..]), json!({"channel": "email", "consent": "withheld"})),
            (
                Some(&[("consent_email", Scalar::Text("yes".into()))][..]),
                json!({"channel": "email", "consent": "withheld"}),
            ),
        ] {
            assert_eq!(email(contact), Judgement::Block(facts));
        }
    }

    #[test]
    fn it_is_night_where_the_contact_lives() {
        let quiet =
            |contact: Option<&[(&str, Scalar)]>| says("quiet_hours: {from: '21:00', to: '08:00', zone: UTC}", contact);
        let morning = Timestamp::parse("2026-11-17T08:00:00Z").expect("a moment");
        assert_eq!(quiet(None), Judgement::Wait(morning));
        assert_eq!(quiet(Some(&[("time_zone", Scalar::Text("Asia/Tokyo".into()))])), Judgement::Pass);
        assert_eq!(quiet(Some(&[("time_zone", Scalar::Text("nowhere".into()))])), Judgement::Wait(morning));
    }

    #[test]
    fn an_expression_says_what_was_not_so() {
        assert_eq!(says("expression: {name: worth-it, that: event.total > 20}", None), Judgement::Pass);
        let refused = says("expression: {name: worth-it, that: event.total > 50}", None);
        assert_eq!(refused, Judgement::Block(json!({"not": "event.total > 50"})));
    }
}
