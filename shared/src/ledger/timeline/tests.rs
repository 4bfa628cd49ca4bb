use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::arrival::event::Event;
use crate::arrival::key::Names;
use crate::base::trace::Trace;
use crate::flows::{Effect, File, Flow, Flows};
use crate::ledger::{Claim, Doubt, Lease, LostAttempt, Reason, SignOff, Wait, WaitsFor};

const NOW: Timestamp = Timestamp::from_secs(1_794_819_600);
const ADA: SignOff<'static> = SignOff { by: "ada", why: "the CRM is back" };

fn at(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

fn flow() -> Flow {
    let flow = "
name: leads
version: 1
on: {source: web-forms, type: lead.created}
schema: {required: [email], properties: {email: {}}}
key: {version: 1, fields: [email]}
order_by: email
ttl: 24h
effects:
  - {id: crm, integration: crm, request: {method: POST, path: /leads}}
  - {id: mail, integration: crm, needs: [crm], request: {method: POST, path: /mail}}
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}
";
    let files = [
        ("sources.yaml", "web-forms: {scheme: standard-webhooks, max_body: 1KiB, rate: 10/s}"),
        ("integrations.yaml", "crm: {base_url: https://api.crm.example.com, timeout: 3s}"),
        ("flows/leads.yaml", flow),
    ];
    let files = files.map(|(path, text)| File { path: path.into(), text: text.into() });
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")).flow("leads").expect("the flow").clone()
}

/// An event on its way through the ledger's own transitions.
struct Journey {
    flow: Flow,
    row: Row,
}

impl Journey {
    fn begins() -> Self {
        let flow = flow();
        let trace = Trace::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").expect("a trace");
        let payload = json!({"email": "ada@example.com"});
        let event = Event::new(&flow, 1, payload, Names::default(), NOW, trace).expect("an event");
        Journey { row: Row::admitted(&event, at(5)), flow }
    }

    fn effect(&self, id: &str) -> Effect {
        self.flow.effects.iter().find(|effect| effect.id == id).expect("an effect").clone()
    }

    /// A claim, which intends the first effect if the ledger knows of none.
    fn claim(&self, millis: u64) -> Lease {
        let claim = Claim {
            now: at(millis),
            lease: Duration::from_millis(100),
            holder: millis.to_string(),
            replay: self.row.replay,
            wake: self.row.wake,
            fingerprint: None,
            first: vec!["crm".into()],
        };
        assert!(self.row.is_won_by(&claim), "{:?}", self.row);
        let mut lease = Lease::won(self.row.clone(), &claim);
        lease.note_lost_attempts(at(millis));
        lease
    }

    /// One claim under which this is done.
    fn works(&mut self, millis: u64, work: impl FnOnce(Lease) -> Row) {
        self.row = work(self.claim(millis));
    }

    fn timeline(&self, millis: u64) -> EventTimeline {
        EventTimeline::of(&self.row, at(millis))
    }
}

/// The spans as lines: from, to, what, how it ended.
fn told(timeline: &EventTimeline) -> Vec<String> {
    let told = |span: &TimelineSpan| {
        let TimelineSpan { kind, began, began_later, ended, end, said, .. } = span;
        let from = began.since(NOW).as_millis();
        let to = ended.map_or_else(|| "…".to_owned(), |ended| ended.since(NOW).as_millis().to_string());
        let what = match kind {
            SpanKind::Accepted => "accepted".to_owned(),
            SpanKind::Waited { waited_for } => format!("waited for {waited_for}"),
            SpanKind::Worked { claim } => format!("worked {claim}"),
            SpanKind::Called { effect, attempt } => format!("called {effect} {attempt}"),
            SpanKind::LookedUp { effect } => format!("looked up {effect}"),
            SpanKind::Replayed { replay, by } => format!("replayed {replay} by {by}"),
            SpanKind::Approved { replay, by } => format!("approved {replay} by {by}"),
            SpanKind::Woken { wake, by } => format!("woken {wake} by {by:?}"),
            SpanKind::Ended => "ended".to_owned(),
        };
        let later = if *began_later { "≥" } else { "" };
        format!("{later}{from}–{to} {what}: {} {said}", end.as_str()).trim_end().to_owned()
    };
    timeline.spans.iter().map(told).collect()
}

/// Every span but the first belongs to one that is there, and no two have the same id.
fn assert_is_a_tree(timeline: &EventTimeline) {
    let ids: BTreeSet<SpanId> = timeline.spans.iter().map(|span| span.id).collect();
    assert_eq!(ids.len(), timeline.spans.len(), "{timeline:#?}");
    let (first, rest) = timeline.spans.split_first().expect("a span");
    assert_eq!(first.parent.to_string(), "00f067aa0ba902b7", "the intake's own");
    assert!(timeline.gap.is_some() || rest.iter().all(|span| ids.contains(&span.parent)), "{timeline:#?}");
}

#[test]
fn a_retry_and_its_wait_are_told_apart() {
    let mut journey = Journey::begins();
    let [crm, mail] = ["crm", "mail"].map(|id| journey.effect(id));
    journey.works(10, |mut lease| {
        lease.record_failed(&crm, "answered 503", at(40));
        lease.retry(Duration::from_secs(1), at(50)).row().clone()
    });
    journey.works(1050, |mut lease| {
        lease.intend(&crm, at(1050));
        lease.record_done(&crm, json!({"id": 7}), at(1100));
        lease.intend(&mail, at(1110));
        lease.record_done(&mail, json!({}), at(1200));
        lease.succeed(Duration::from_secs(60), at(1210)).row().clone()
    });
    let timeline = journey.timeline(5000);
    let expected = [
        "0–5 accepted: done",
        "5–10 waited for a worker: done",
        "10–50 worked 1: done retry in 1000 ms",
        "10–40 called crm 1: failed answered 503",
        "50–1050 waited for its next try: done",
        "1050–1210 worked 2: done succeeded",
        "≥1050–1100 called crm 2: done done",
        "1110–1200 called mail 1: done done",
    ];
    assert_eq!(told(&timeline), expected);
    assert_is_a_tree(&timeline);
    let ids = SpanIds::of(&journey.row.trace, &journey.row.id);
    assert_eq!(timeline.spans[3].id, ids.called(1, "crm"));
    assert_eq!(timeline.spans[3].parent, ids.worked(1));
}

#[test]
fn a_worker_that_was_lost_is_shown_with_its_call_at_once_and_after_another_has_come() {
    let mut journey = Journey::begins();
    let crm = journey.effect("crm");
    journey.works(10, |lease| lease.row().clone());
    assert_eq!(told(&journey.timeline(60))[2..], ["10–… worked 1: open", "10–… called crm 1: open"]);
    let lost = ["10–110 worked 1: unknown the worker was lost", "10–110 called crm 1: unknown the worker was lost"];
    assert_eq!(told(&journey.timeline(500))[2..], lost, "the lease is over");

    let called = journey.timeline(60).spans[3].id;
    // The next is lost as well, before it has written anything.
    journey.works(200, |lease| lease.row().clone());
    journey.row.history.retain(|moment| !moment.what.contains("no outcome"));
    journey.works(400, |mut lease| {
        lease.intend(&crm, at(410));
        lease.record_done(&crm, json!({}), at(450));
        lease.succeed(Duration::from_secs(60), at(460)).row().clone()
    });
    let timeline = journey.timeline(5000);
    let expected = [
        "10–200 worked 1: unknown the worker was lost",
        "≥10–200 called crm 1: unknown the worker was lost",
        "200–400 worked 2: unknown the worker was lost",
        "400–460 worked 3: done succeeded",
        "≥400–450 called crm 2: done done",
    ];
    assert_eq!(told(&timeline)[2..], expected);
    assert_eq!(timeline.spans[3].id, called, "whoever computes it");
    assert_is_a_tree(&timeline);
}

#[test]
fn a_lost_attempt_is_noted_once_and_told_to_who_exports_it() {
    let mut journey = Journey::begins();
    journey.works(10, |lease| lease.row().clone());
    let claim = Claim {
        now: at(200),
        lease: Duration::from_millis(100),
        holder: "b".into(),
        replay: 0,
        wake: 0,
        fingerprint: None,
        first: Vec::new(),
    };
    let mut lease = Lease::won(journey.row.clone(), &claim);
    let lost = lease.note_lost_attempts(at(201));
    let expected = LostAttempt { effect: "crm".into(), attempt: 1, claim: 1, began: at(10), until: at(110) };
    assert_eq!(lost, [expected]);
    assert_eq!(lease.note_lost_attempts(at(202)), []);
    // It goes back to the queue without a word on the call, and is claimed once more.
    journey.row = lease.retry(Duration::ZERO, at(203)).row().clone();
    journey.works(300, |lease| lease.row().clone());
    let told = journey.row.history.iter().filter(|moment| moment.what.contains("the worker of claim 1"));
    assert_eq!(told.count(), 1, "{:?}", journey.row.history.iter().map(|moment| &moment.what).collect::<Vec<_>>());
}

#[test]
fn a_replay_says_who_did_it_and_what_follows_belongs_to_it() {
    let mut journey = Journey::begins();
    let crm = journey.effect("crm");
    journey.works(10, |mut lease| {
        lease.record_failed(&crm, "answered 422 (E1)", at(40));
        lease.bury(Reason::Terminal, Some(&crm), "answered 422", at(50)).row().clone()
    });
    journey.row = journey.row.park(at(60)).replayed(ADA, at(9000)).expect("it is dead");
    journey.works(9010, |mut lease| {
        lease.intend(&crm, at(9020));
        lease.record_done(&crm, json!({}), at(9050));
        lease.succeed(Duration::from_secs(60), at(9060)).row().clone()
    });
    let timeline = journey.timeline(10_000);
    let expected = [
        "10–50 worked 1: failed dead: terminal",
        "10–40 called crm 1: failed answered 422 (E1)",
        "50–9000 waited for an operator: done",
        "9000–9000 replayed 1 by ada: the CRM is back: done",
        "9000–9010 waited for a worker: done",
        "9010–9060 worked 3: done succeeded",
        "≥9010–9050 called crm 1: done done",
    ];
    assert_eq!(told(&timeline)[2..], expected);
    assert_is_a_tree(&timeline);
    assert_eq!(timeline.spans[7].parent, timeline.spans[5].id);
    assert!(!format!("{:?}", EventTimeline::unquoted(&journey.row, at(10_000))).contains("ada"));
}

#[test]
fn what_crashed_until_the_queue_gave_up_is_a_lost_worker_and_no_end_of_its_own() {
    let mut journey = Journey::begins();
    journey.works(10, |lease| lease.row().clone());
    journey.row = journey.row.park(at(700));
    let expected = [
        "10–700 worked 1: unknown the worker was lost",
        "≥10–700 called crm 1: unknown the worker was lost",
        "700–… waited for an operator: open",
    ];
    assert_eq!(told(&journey.timeline(800))[2..], expected);
    assert_is_a_tree(&journey.timeline(800));
}

#[test]
fn a_lookup_is_no_call() {
    let mut journey = Journey::begins();
    let crm = journey.effect("crm");
    journey.works(10, |mut lease| {
        lease.record_unknown(&crm, "no answer", Doubt::MayHaveHappened, at(40));
        lease.retry(Duration::from_secs(1), at(50)).row().clone()
    });
    journey.works(1050, |mut lease| {
        lease.record_unknown(&crm, "looked up: answered 500", Doubt::None, at(1060));
        lease.retry(Duration::from_secs(1), at(1070)).row().clone()
    });
    journey.works(2070, |mut lease| {
        lease.record_absent(&crm, at(2080));
        lease.intend(&crm, at(2080));
        lease.record_unknown(&crm, "no answer", Doubt::MayHaveHappened, at(2090));
        lease.retry(Duration::from_secs(1), at(2100)).row().clone()
    });
    journey.works(3100, |mut lease| {
        lease.record_done(&crm, json!({}), at(3150));
        lease.succeed(Duration::from_secs(60), at(3160)).row().clone()
    });
    let calls = |line: &String| line.contains("called") || line.contains("looked up");
    let calls: Vec<String> = told(&journey.timeline(5000)).into_iter().filter(calls).collect();
    let expected = [
        "10–40 called crm 1: unknown unknown: no answer",
        "≥1050–1060 looked up crm: unknown unknown: looked up: answered 500",
        "≥2070–2080 looked up crm: failed looked up: it did not happen",
        "≥2070–2090 called crm 2: unknown unknown: no answer",
        "≥3100–3150 looked up crm: done done",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_wait_is_told_with_what_ended_it() {
    let mut journey = Journey::begins();
    journey.works(10, |mut lease| {
        lease.withdraw_intents();
        let on = WaitsFor::Integration("crm".into());
        let wait =
            Wait { on, why: "breaker open".into(), group: "g".into(), since: at(20), until: None, woken_at: None };
        lease.wait(wait, at(20), at(20)).row().clone()
    });
    assert_eq!(told(&journey.timeline(500))[3..], ["20–… waited for integration crm: breaker open: open"]);
    journey.row = journey.row.woken(Some(ADA), at(900)).expect("it waits");
    journey.works(950, |lease| lease.succeed(Duration::from_secs(60), at(960)).row().clone());
    let timeline = journey.timeline(5000);
    let expected = [
        "20–900 waited for integration crm: breaker open: done",
        "900–900 woken 1 by Some(\"ada: the CRM is back\"): done",
        "900–950 waited for a worker: done",
        "950–960 worked 3: done succeeded",
    ];
    assert_eq!(told(&timeline)[3..], expected);
    assert_is_a_tree(&timeline);
}

#[test]
fn where_the_history_had_no_room_the_timeline_says_so_and_knows_the_rest() {
    let mut journey = Journey::begins();
    let crm = journey.effect("crm");
    for n in 0..20 {
        journey.works(1000 * n + 10, |mut lease| {
            if n > 0 {
                lease.intend(&crm, at(1000 * n + 20));
            }
            lease.record_failed(&crm, "answered 503", at(1000 * n + 40));
            lease.retry(Duration::from_millis(900), at(1000 * n + 50)).row().clone()
        });
    }
    let lines = journey.row.history.iter().filter_map(|moment| lines_left_out(&moment.what)).collect::<Vec<_>>();
    let (kept, written) = (u32::try_from(journey.row.history.len()).expect("few"), 1 + 20 * 3);
    assert_eq!(lines, [written - (kept - 1)], "each line is kept or counted");
    let timeline = journey.timeline(30_000);
    let gap = timeline.gap.expect("there is one");
    assert_eq!(gap.lines, lines[0]);
    assert!(gap.after < gap.before, "{gap:?}");
    assert_is_a_tree(&timeline);
    let all = told(&timeline);
    assert!(all.contains(&"10–40 called crm 1: failed answered 503".to_owned()), "{all:#?}");
    assert!(all.contains(&"≥19010–19040 called crm 20: failed answered 503".to_owned()), "{all:#?}");
    let ids = SpanIds::of(&journey.row.trace, &journey.row.id);
    let called = |claim| timeline.spans.iter().any(|span| span.id == ids.called(claim, "crm"));
    assert!(called(1) && called(20) && !called(10), "{all:#?}");
}

#[test]
fn a_timeline_comes_back_from_json() {
    let timeline = Journey::begins().timeline(50);
    let text = serde_json::to_string(&timeline).expect("JSON");
    assert_eq!(serde_json::from_str::<EventTimeline>(&text).expect("a timeline"), timeline, "{text}");
}
