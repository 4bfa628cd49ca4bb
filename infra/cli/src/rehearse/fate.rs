//! What an answer of the intake says of each event of a delivery.

use serde_json::Value;

/// What became of an event at the door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventFate {
    /// It is new: the id of its row.
    Accepted(String),
    /// It was known: the id of the row that stands for it.
    Duplicate(String),
    /// No flow takes its type, and the source lets such events go by; or it was a handshake.
    Ignored,
    /// It was rejected: the problem that its sender is told.
    Rejected(String),
}

/// The rejections after which the sender comes again.
const TEMPORARY: [&str; 2] = ["too-many", "unavailable"];

impl EventFate {
    fn is_temporary(&self) -> bool {
        matches!(self, EventFate::Rejected(problem) if TEMPORARY.contains(&problem.as_str()))
    }
}

/// The fates of the events in a delivery, each with one for every flow that takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeliveryFates(pub(super) Vec<Vec<EventFate>>);

impl DeliveryFates {
    /// What an answer says.
    pub(super) fn of(status: u16, replayed: bool, body: &Value) -> Self {
        let Some(events) = body["results"].as_array() else {
            return DeliveryFates(vec![of_event(u64::from(status), replayed, body)]);
        };
        let of_part = |event: &Value| {
            let status = event["http_status"].as_u64().unwrap_or_default();
            of_event(status, event["replayed"] == true, event)
        };
        DeliveryFates(events.iter().map(of_part).collect())
    }

    /// Whether the intake did not believe the signature.
    pub(super) fn are_unsigned(&self) -> bool {
        self.0.iter().flatten().any(|fate| matches!(fate, EventFate::Rejected(problem) if problem == "bad-signature"))
    }

    /// The fates after one more try: what was decided before stays, because what was accepted then is a duplicate now.
    pub(super) fn after(self, before: Option<DeliveryFates>) -> Self {
        let Some(before) = before else { return self };
        if before.0.len() != self.0.len() {
            // One of them is about the whole delivery.
            let says_nothing = self.0.iter().flatten().all(EventFate::is_temporary);
            return if says_nothing { before } else { self };
        }
        let decided = |(before, now): (Vec<EventFate>, Vec<EventFate>)| {
            if before.iter().any(EventFate::is_temporary) { now } else { before }
        };
        DeliveryFates(before.0.into_iter().zip(self.0).map(decided).collect())
    }
}

fn of_event(status: u64, replayed: bool, event: &Value) -> Vec<EventFate> {
    if !(200..300).contains(&status) {
        let problem = event["type"].as_str().and_then(|urn| urn.rsplit(':').next()).unwrap_or("no answer");
        return vec![EventFate::Rejected(problem.to_owned())];
    }
    let fate = |replayed: bool, id: &str| match replayed {
        true => EventFate::Duplicate(id.to_owned()),
        false => EventFate::Accepted(id.to_owned()),
    };
    match (event["flows"].as_object(), event["id"].as_str()) {
        (Some(flows), _) => {
            let each = flows.values().map(|one| fate(one["replayed"] == true, one["id"].as_str().unwrap_or_default()));
            each.collect()
        }
        (None, Some(id)) => vec![fate(replayed, id)],
        (None, None) => vec![EventFate::Ignored],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_event_of_a_delivery_has_its_own_fate() {
        let body = json!({"type": "urn:ledgerline:problem:invalid-event", "results": [
            {"http_status": 202, "id": "a", "replayed": false},
            {"http_status": 202, "id": "b", "replayed": true},
            {"http_status": 202, "status": "ignored"},
            {"http_status": 422, "type": "urn:ledgerline:problem:invalid-event"},
            {"http_status": 202, "flows": {"x": {"id": "c", "replayed": false}, "y": {"id": "d", "replayed": true}}},
        ]});
        let fate = |kind: fn(String) -> EventFate, text: &str| kind(text.to_owned());
        assert_eq!(
            DeliveryFates::of(422, false, &body).0,
            [
                vec![fate(EventFate::Accepted, "a")],
                vec![fate(EventFate::Duplicate, "b")],
                vec![EventFate::Ignored],
                vec![fate(EventFate::Rejected, "invalid-event")],
                vec![fate(EventFate::Accepted, "c"), fate(EventFate::Duplicate, "d")],
            ]
        );
        let plain = |replayed| DeliveryFates::of(202, replayed, &json!({"id": "a"})).0;
        assert_eq!(
            (plain(false), plain(true)),
            (vec![vec![EventFate::Accepted("a".into())]], vec![vec![EventFate::Duplicate("a".into())]])
        );
    }

    #[test]
    fn what_was_accepted_before_another_try_is_no_duplicate() {
        let (new, again) = (EventFate::Accepted("a".into()), EventFate::Duplicate("a".into()));
        let late = EventFate::Rejected("too-many".into());
        let first = DeliveryFates(vec![vec![new.clone()], vec![late]]);
        let second = DeliveryFates(vec![vec![again], vec![EventFate::Accepted("b".into())]]);
        assert_eq!(second.after(Some(first)).0, [vec![new], vec![EventFate::Accepted("b".into())]]);
    }
}
