//! The reconciliation of three ledgers: the senders' answers, our ledger, the partners' logs.

use std::collections::{BTreeSet, HashMap};

use shared::flows::{Flow, Flows, Guarantee};
use shared::ledger::{Row, State};

use super::operator::leaves_doubt;
use super::partner_control::path;
use super::senders::SenderLog;
use crate::partners::PartnerCall;

/// What the three ledgers say together.
#[derive(Debug, Default)]
pub(super) struct Reconciliation {
    /// How many effects the accepted events should have had.
    pub(super) owed: usize,
    /// How many effects the partners applied.
    pub(super) applied: usize,
    /// Effects that were applied more than once.
    pub(super) duplicates: Vec<Finding>,
    /// Events that were acknowledged and are not done, by the ledger or by a partner's log.
    pub(super) lost: Vec<Finding>,
    /// Effects that an older event applied over those of a newer one of its contact.
    pub(super) undone: Vec<Finding>,
    /// Calls whose outcome nobody could know, and that no operator was shown.
    pub(super) unlisted: Vec<Finding>,
    /// Events and effects that should not be there at all.
    pub(super) unexpected: Vec<Finding>,
}

/// A finding about an event.
#[derive(Debug)]
pub(super) struct Finding {
    /// The sender's id of the event.
    pub(super) event_id: String,
    /// What is wrong.
    pub(super) what: String,
    /// What the ledger and the partners' logs say about it.
    pub(super) history: Vec<String>,
}

/// The three ledgers, and the flows that say what was to be done.
pub(super) struct ThreeLedgers<'l> {
    /// The senders' log.
    pub(super) senders: &'l SenderLog,
    /// The rows of our ledger, by id.
    pub(super) rows: &'l HashMap<String, Row>,
    /// The calls in the partners' logs.
    pub(super) calls: &'l [PartnerCall],
    /// The flows, which say what was to be done.
    pub(super) flows: &'l Flows,
    /// The calls of unknown outcome that an operator was shown before the replay, by their paths.
    pub(super) listed: &'l BTreeSet<String>,
}

impl ThreeLedgers<'_> {
    /// Compares the ledgers.
    pub(super) fn reconcile(&self) -> Reconciliation {
        let applied = self.applied();
        let mut reconciliation = Reconciliation { applied: applied.values().sum(), ..Reconciliation::default() };
        for (event_id, ids) in &self.senders.accepted {
            if ids.len() > 1 {
                reconciliation.unexpected.push(self.finding(event_id, format!("was accepted under {} ids", ids.len())));
            }
            for id in ids {
                self.check(event_id, id, &applied, &mut reconciliation);
            }
        }
        let answers = self.senders.unexpected.iter();
        reconciliation.unexpected.extend(answers.map(|what| self.finding("-", what.clone())));
        reconciliation.unexpected.extend(self.effects_of_unknown_events());
        reconciliation.undone = self.undone();
        reconciliation.unlisted = self.unlisted();
        reconciliation
    }

    fn check(&self, event_id: &str, id: &str, applied: &HashMap<&str, usize>, reconciliation: &mut Reconciliation) {
        let Some(row) = self.rows.get(id) else {
            reconciliation.lost.push(self.finding(event_id, "has no row in the ledger".into()));
            return;
        };
        let flow = self.flows.flow(&row.flow);
        // The operator drops nothing but what a newer event has made out of date.
        if row.state == State::Dropped && flow.is_some_and(Flow::replaces_older) {
            return;
        }
        if row.state != State::Succeeded {
            reconciliation
                .lost
                .push(self.finding(event_id, format!("did not succeed: its state is {}", row.state.as_str())));
        }
        for effect in flow.into_iter().flat_map(|flow| &flow.effects) {
            // An effect that calls no partner is in no partner's log.
            let Some(integration) = effect.integration() else { continue };
            reconciliation.owed += 1;
            match applied.get(path(integration, &effect.id, event_id).as_str()) {
                Some(1) => (),
                Some(_) if effect.guarantee == Guarantee::Idempotent => (),
                Some(count) => {
                    reconciliation
                        .duplicates
                        .push(self.finding(event_id, format!("{} was applied {count} times", effect.id)));
                }
                None => reconciliation.lost.push(self.finding(event_id, format!("{} was never applied", effect.id))),
            }
        }
    }

    /// The effects that may be repeated, and were when a newer event of the same contact had been applied.
    fn undone(&self) -> Vec<Finding> {
        let mut newest: HashMap<String, &Row> = HashMap::new();
        let mut findings = Vec::new();
        for call in self.calls.iter().filter(|call| call.applied) {
            let Some((event_id, row)) = self.event_of(call) else { continue };
            if !self.flows.flow(&row.flow).is_some_and(Flow::replaces_older) {
                continue;
            }
            let resource = format!("{} {}", call.integration, call.body["contact"]);
            let last = newest.entry(resource).or_insert(row);
            if last.received_at > row.received_at {
                findings.push(self.finding(event_id, format!("was applied again after {}", last.id)));
            } else {
                *last = row;
            }
        }
        findings
    }

    /// The calls of effects without a guarantee whose answers left it open what had happened, and that were not listed as
    /// unknown.
    fn unlisted(&self) -> Vec<Finding> {
        let effects = self.flows.all().flat_map(|flow| &flow.effects);
        let none: Vec<String> = effects
            .filter(|effect| effect.guarantee == Guarantee::None)
            .filter_map(|effect| Some(path(effect.integration()?, &effect.id, "")))
            .collect();
        let doubtful = self.calls.iter().filter(|call| none.iter().any(|prefix| call.path.starts_with(prefix)));
        // A success that did nothing says so in its body.
        let says_no = |call: &PartnerCall| !call.applied && call.status.is_some_and(|status| status < 300);
        let unlisted = doubtful.filter(|call| leaves_doubt(call) && !says_no(call));
        let unlisted = unlisted.filter(|call| !self.listed.contains(&call.path));
        let finding = |call: &PartnerCall| {
            let (event_id, _) = self.event_of(call)?;
            Some(self.finding(event_id, format!("{} was in doubt, and was never listed", call.path)))
        };
        unlisted.filter_map(finding).collect()
    }

    /// The accepted event that a call was made for, as its sender and as our ledger knows it.
    fn event_of<'s>(&'s self, call: &'s PartnerCall) -> Option<(&'s str, &'s Row)> {
        let event_id = call.path.rsplit('/').next()?;
        let id = self.senders.accepted.get(event_id)?.iter().next()?;
        Some((event_id, self.rows.get(id)?))
    }

    /// How often each effect was applied, by its path.
    fn applied(&self) -> HashMap<&str, usize> {
        let mut applied = HashMap::new();
        for call in self.calls.iter().filter(|call| call.applied) {
            *applied.entry(call.path.as_str()).or_default() += 1;
        }
        applied
    }

    /// The effects of events that no sender was told we accepted.
    fn effects_of_unknown_events(&self) -> Vec<Finding> {
        let event_of = |call: &PartnerCall| call.path.rsplit('/').next().unwrap_or_default().to_owned();
        let applied = self.calls.iter().filter(|call| call.applied).map(|call| (event_of(call), &call.path));
        let uncalled = applied.filter(|(event_id, _)| !self.senders.accepted.contains_key(event_id));
        uncalled
            .map(|(event_id, path)| self.finding(&event_id, format!("was never accepted, and {path} was applied")))
            .collect()
    }

    fn finding(&self, event_id: &str, what: String) -> Finding {
        let ids = self.senders.accepted.get(event_id).into_iter().flatten();
        let rows = ids.filter_map(|id| self.rows.get(id));
        let moments = rows.flat_map(|row| row.history.iter().map(|moment| format!("{}  {}", moment.at, moment.what)));
        let suffix = format!("/{event_id}");
        let calls = self.calls.iter().filter(|call| call.path.ends_with(&suffix));
        let calls = calls.map(|call| {
            let fault = call.fault().unwrap_or_else(|| "ok".into());
            format!("{}  partner: {} {}: {fault}, applied: {}", call.time, call.method, call.path, call.applied)
        });
        let mut history: Vec<String> = moments.chain(calls).collect();
        history.sort();
        Finding { event_id: event_id.to_owned(), what, history }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::adapters::machine::read_flows;
    use shared::base::id::EventId;
    use shared::base::time::Timestamp;

    use super::*;
    use crate::project::Project;

    fn call(path: &str, applied: bool) -> PartnerCall {
        let call = json!({
            "seq": 1, "time": "2026-01-01T00:00:00.000Z", "integration": "mail", "method": "POST", "path": path,
            "authorized": false, "body": null, "status": 200, "mode": "ok", "applied": applied, "replayed": false,
        });
        serde_json::from_value(call).expect("a call")
    }

    fn row(state: &str) -> Row {
        let trace = "00-00000000000000000000000000000001-0000000000000002-01";
        let row = json!({
            "id": "1", "flow": "mail", "source": "web-forms", "received_at": 0, "trace": trace, "fingerprint": "",
            "state": state, "epoch": 1, "step": 1, "queued_at": 0, "history": [], "expires_at": 0,
        });
        serde_json::from_value(row).expect("a row")
    }

    /// What is wrong when senders were told of `event1`: duplicates, lost and unexpected, counted.
    fn wrong(rows: &[(&str, Row)], calls: &[PartnerCall]) -> (usize, usize, usize) {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flows = read_flows(&Project::at(&root).chaos_flows()).expect("the chaos flows are good");
        let rows = rows.iter().map(|(id, row)| ((*id).to_owned(), row.clone())).collect();
        let senders = SenderLog { accepted: [("event1".into(), ["1".into()].into())].into(), ..SenderLog::default() };
        let listed = BTreeSet::new();
        let ledgers = ThreeLedgers { senders: &senders, rows: &rows, calls, flows: &flows, listed: &listed };
        let reconciliation = ledgers.reconcile();
        (reconciliation.duplicates.len(), reconciliation.lost.len(), reconciliation.unexpected.len())
    }

    #[test]
    fn the_books_balance_only_when_each_effect_was_applied_once() {
        let (once, done) = (call("/mail/mail/event1", true), [("1", row("succeeded"))]);
        assert_eq!(wrong(&done, std::slice::from_ref(&once)), (0, 0, 0));
        assert_eq!(wrong(&done, &[once.clone(), call("/mail/mail/event1", false)]), (0, 0, 0));
        assert_eq!(wrong(&done, &[once.clone(), once.clone()]), (1, 0, 0));
        assert_eq!(wrong(&done, &[]), (0, 1, 0));
        assert_eq!(wrong(&[("1", row("dead"))], std::slice::from_ref(&once)), (0, 1, 0));
        assert_eq!(wrong(&[], &[once]), (0, 1, 0));
    }

    #[test]
    fn an_older_event_must_not_be_applied_over_a_newer_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flows = read_flows(&Project::at(&root).chaos_flows()).expect("the chaos flows are good");
        let profile = |id: &str, at: i64| {
            let mut row = row("succeeded");
            (row.id, row.flow, row.received_at) = (EventId::named(id), "profile".into(), Timestamp::from_secs(at));
            (id.to_owned(), row)
        };
        let rows = [profile("1", 10), profile("2", 20)].into();
        let accepted = [("older".into(), ["1".into()].into()), ("newer".into(), ["2".into()].into())].into();
        let senders = SenderLog { accepted, ..SenderLog::default() };
        let [older, newer] = ["/profiles/profile/older", "/profiles/profile/newer"].map(|path| call(path, true));
        let undone = |calls: &[PartnerCall]| {
            let listed = BTreeSet::new();
            let ledgers = ThreeLedgers { senders: &senders, rows: &rows, calls, flows: &flows, listed: &listed };
            ledgers.reconcile().undone.len()
        };
        assert_eq!(undone(&[older.clone(), newer.clone(), newer.clone()]), 0);
        assert_eq!(undone(&[older.clone(), newer, older]), 1);
    }

    #[test]
    fn what_nobody_could_know_was_shown_to_an_operator() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let flows = read_flows(&Project::at(&root).chaos_flows()).expect("the chaos flows are good");
        let accepted = [("event1".into(), ["1".into()].into())].into();
        let (senders, rows) = (SenderLog { accepted, ..SenderLog::default() }, [("1".to_owned(), row("succeeded"))]);
        let rows = rows.into();
        let unlisted = |path: &str, status: u16, listed: &[&str]| {
            let calls = [PartnerCall { status: Some(status), ..call(path, true) }];
            let listed = listed.iter().map(|path| (*path).to_owned()).collect();
            let ledgers =
                ThreeLedgers { senders: &senders, rows: &rows, calls: &calls, flows: &flows, listed: &listed };
            ledgers.reconcile().unlisted.len()
        };
        assert_eq!(unlisted("/mail/mail/event1", 503, &[]), 1);
        assert_eq!(unlisted("/mail/mail/event1", 503, &["/mail/mail/event1"]), 0);
        assert_eq!(unlisted("/mail/mail/event1", 422, &[]), 0, "it surely did nothing");
        assert_eq!(unlisted("/crm/contact/event1", 503, &[]), 0, "it honours our key");
    }

    #[test]
    fn what_nobody_was_told_of_must_not_be_done() {
        let calls = [call("/mail/mail/event1", true), call("/mail/mail/forged1", true)];
        assert_eq!(wrong(&[("1", row("succeeded"))], &calls), (0, 0, 1));
    }
}
