//! What people wrote is never printed: no type that holds it has a `Debug` that shows it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::arrival::delivery::{Called, Delivery, Headers};
use shared::arrival::event::Event;
use shared::arrival::invalid::InvalidBody;
use shared::arrival::key::Names;
use shared::arrival::signature::Secret;
use shared::base::id::EventId;
use shared::base::masked::Masked;
use shared::effects::body::RequestBody;
use shared::effects::clue::Mask;
use shared::effects::contact::ContactUpsert;
use shared::effects::credentials::Credentials;
use shared::effects::enrichment::Findings;
use shared::effects::invocation::FunctionRequest;
use shared::effects::outcome::{LookupOutcome, Outcome};
use shared::effects::request::PartnerRequest;
use shared::flows::template::Scope;
use shared::flows::{File, Flows, PartnerAnswer};
use shared::ledger::plan::{Fate, PlanStep};
use shared::ledger::queue::{DeadLetter, Received};
use shared::ledger::{
    Admissions, CallError, Claim, Claims, Clue, Death, Doubt, Entry, Lease, Moment, Noop, NotClaimed, Progress, Reason,
    Row,
};
use shared::operate::requeue::Record;
use std::time::Duration;

use crate::fixtures::{NOW, event, shown, sources, without_tests};
use crate::memory::World;

const CANARY: &str = "canary-4711@example.com";

fn canary() -> Value {
    json!({"email": CANARY})
}

fn spoiled_event() -> Event {
    Event { payload: canary(), ..event("evt_1") }
}

/// A row that holds the canary wherever somebody's words can be.
fn spoiled_row() -> Row {
    let mut row = Row::admitted(&spoiled_event(), NOW);
    let entry = |progress| Entry { progress, ..Entry::intended(NOW) };
    let said = || CANARY.to_owned();
    row.effects = BTreeMap::from([
        ("done".to_owned(), entry(Progress::Done { result: canary() })),
        ("failed".to_owned(), entry(Progress::Failed { error: said() })),
        ("unknown".to_owned(), entry(Progress::Unknown { error: said() })),
    ]);
    row.enrich = canary().as_object().cloned().unwrap_or_default();
    row.death = Some(Death { reason: Reason::Terminal, effect: None, error: said(), attempts: 1, at: NOW });
    row.noop = Some(Noop { guard: "consent".into(), facts: canary() });
    row.history.push(Moment { at: NOW, what: said() });
    row
}

fn spoiled_error() -> CallError {
    let clue = Clue { code: Some(CANARY.into()), message: Some(CANARY.into()) };
    CallError::from("answered 422").with_clue(Some(clue))
}

#[tokio::test]
async fn no_type_that_holds_what_people_wrote_prints_it() {
    let headers: Headers = [("x-who", CANARY)].into_iter().collect();
    let delivery = Delivery {
        source: CANARY.into(),
        event_type: Some(CANARY.into()),
        headers: headers.clone(),
        body: CANARY.as_bytes().to_vec(),
        called: Called { method: "POST".into(), base: CANARY.into(), path: CANARY.into(), query: CANARY.into() },
    };
    let names = Names { id: Some(CANARY), idempotency_key: Some(CANARY), in_batch: None };
    let (message_id, receipt, group) = ("m".into(), "r".into(), "g".into());
    let received = Received { message_id, receipt, group, body: CANARY.into(), sent_at: None, first_received_at: None };
    let row = spoiled_row();
    let death = row.death.clone().expect("it is dead");
    let letter =
        DeadLetter { body: CANARY.into(), group: "g".into(), deduplication_id: "d".into(), death: death.clone() };
    let answer = PartnerAnswer {
        status: 200,
        headers: BTreeMap::from([("x-who".to_owned(), CANARY.to_owned())]),
        body: Some(canary()),
    };
    let request = PartnerRequest {
        method: "POST",
        integration: "crm".into(),
        base_url: "https://api.crm.example.com".into(),
        path: format!("/{CANARY}"),
        headers: vec![("x-who".into(), CANARY.into())],
        credentials: Credentials::Header { name: "x".into(), value: Secret::new(CANARY), secret: Secret::new(CANARY) },
        body: Some(RequestBody::of_json(&canary())),
        timeout: Duration::from_secs(1),
    };
    let fields = json!({"first_name": CANARY});
    let upsert = ContactUpsert::new("acme", CANARY, fields.as_object().expect("an object")).expect("a contact");
    let found = Findings::default();
    found.put("geo", CANARY.into(), canary(), NOW);
    let ledger = World::new().ledger;
    ledger.admit(&Row::admitted(&spoiled_event(), NOW), NOW).await.expect("the model answers");
    let claim = Claim {
        now: NOW,
        lease: Duration::from_secs(60),
        holder: "h".into(),
        replay: 0,
        wake: 0,
        fingerprint: None,
        first: Vec::new(),
    };
    let lease: Lease = ledger.claim(&spoiled_event().id, &claim).await.expect("an answer").expect("it is won");
    let operation: replay::Operation = serde_json::from_value(json!({
        "op": "set_contact", "tenant": "acme", "email": CANARY, "fields": canary(), "by": "ada", "reason": "she called"}))
    .expect("an operation");
    let import: replay::Operation = serde_json::from_value(json!({
        "op": "import_contacts", "by": "ada", "reason": "the old CRM",
        "rows": [{"line": 2, "tenant": "acme", "email": CANARY, "at": "0", "fields": canary()}]}))
    .expect("an operation");
    let resolve: replay::Operation = serde_json::from_value(json!({
        "op": "resolve", "id": "e", "effect": "crm", "verdict": {"happened": canary()}, "by": "ada", "reason": "seen",
        "version": "1"}))
    .expect("an operation");
    let receipt = intake::Receipt {
        id: EventId::named("e"),
        flow: "leads".into(),
        ids: Some(canary().to_string()),
        replayed: true,
        result: Some(canary()),
        standing: None,
    };
    let step = PlanStep { effect: "crm".into(), fate: Fate::Run, what: canary() };
    let printed = [
        format!("{:?}", spoiled_event()),
        format!("{delivery:?} {headers:?} {names:?} {received:?} {letter:?} {death:?}"),
        format!("{:?}", InvalidBody::new(canary(), names)),
        format!("{row:#?} {:?} {:?}", NotClaimed::Dead(Box::new(row.clone())), lease),
        format!("{:?}", Record { row: row.clone(), event: Some(spoiled_event()) }),
        format!("{answer:?} {request:?} {upsert:?} {found:?} {step:?} {receipt:?}"),
        format!("{:?} {:?}", Outcome::Done(canary()), Outcome::Terminal(spoiled_error())),
        format!("{:?}", Outcome::Unknown { error: spoiled_error(), doubt: Doubt::MayHaveHappened }),
        format!("{:?} {:?}", LookupOutcome::Found(canary()), LookupOutcome::CannotSay(spoiled_error())),
        format!("{:?} {:?}", row.scope_of(&spoiled_event()), Scope::of(&canary())),
        format!("{operation:?} {import:?} {resolve:?}"),
        format!("{:?} {:?}", Masked(CANARY), Secret::new(CANARY)),
        format!("{:?}", Mask::new([&canary()], &[Secret::new(CANARY)])),
        format!(
            "{:?}",
            FunctionRequest {
                integration: "score".into(),
                function: function(),
                document: canary().to_string(),
                timeout: Duration::from_secs(1),
            }
        ),
    ];
    for text in printed {
        assert!(text.len() > 5, "{text}");
        assert!(!text.contains("canary"), "it is printed: {text}");
    }
}

/// The name of some function.
fn function() -> shared::flows::FunctionName {
    let integrations = "score: {invoke: ledgerline-team-score, timeout: 2s}";
    let files = [("integrations.yaml", integrations)].map(|(path, text)| File { path: path.into(), text: text.into() });
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    flows.integration("score").and_then(|score| score.function.clone()).expect("a function")
}

/// Types that derive `Debug` although they hold a JSON value: what it is, and why that is no person's.
const NOTHING_OF_PEOPLE: [(&str, &str); 6] = [
    ("BadContact", "it names what is wrong, and no value"),
    ("Operation", "an operator's change of a policy; what is a person's in it is masked"),
    ("Judgement", "the facts of a guard, which name no person"),
    ("Turn", "an operator's change of a policy"),
    ("Switches", "an operator's change of a policy"),
    ("Position", "an operator's change of a policy"),
];

/// A new type that holds a payload must say what of it is printed.
#[test]
fn whatever_holds_a_value_says_itself_what_is_printed() {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for folder in ["shared/src", "functions"] {
        for (path, text) in sources(folder) {
            let file = shown(&path);
            // Flow files are ours, and the models stay in tests.
            let ours = file.starts_with("shared/src/flows/") || file.starts_with("shared/src/model/");
            for (derived, rest) in derived(without_tests(&text)) {
                found.push(name_of(rest).to_owned());
                let holds = ["Value", "Vec<u8>", "HeaderMap"].iter().any(|kind| holds(rest, kind));
                let name = name_of(rest);
                let excused = ours || NOTHING_OF_PEOPLE.iter().any(|(known, _)| *known == name);
                if derived && holds && !excused {
                    wrong.push(format!("{file}: {name} holds a value and derives `Debug`"));
                }
            }
        }
    }
    assert!(found.len() > 100, "the types were not found: {found:?}");
    assert_eq!(wrong, Vec::<String>::new());
}

/// Each type with its attributes: whether it derives `Debug`, and its text from its name on.
fn derived(code: &str) -> Vec<(bool, &str)> {
    let declarations =
        ["struct ", "enum "].into_iter().flat_map(|kind| code.match_indices(kind).map(move |(at, _)| (at, kind)));
    let at_start = |at: usize| {
        code[..at].lines().last().is_some_and(|line| matches!(line.trim(), "" | "pub" | "pub(crate)" | "pub(super)"))
    };
    let item = |(at, kind): (usize, &str)| {
        let attributes = code[..at].rsplit("\n\n").next().unwrap_or_default();
        let derives = attributes.lines().any(|line| line.starts_with("#[derive(") && line.contains("Debug"));
        let rest = &code[at + kind.len()..];
        let end = rest.find("\n}").or_else(|| rest.find('\n')).unwrap_or(rest.len());
        let end = rest.find(";\n").map_or(end, |line| line.min(end));
        (derives, &rest[..end])
    };
    declarations.filter(|(at, _)| at_start(*at)).map(item).collect()
}

fn name_of(rest: &str) -> &str {
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Whether a declaration names this type, behind no letter of another name and not in a comment.
fn holds(rest: &str, kind: &str) -> bool {
    let code = rest.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.match_indices(kind).map(move |(at, _)| (line, at))).any(|(line, at)| {
        let before = line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let after = line[at + kind.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let masked = line[..at].ends_with("Masked<") || line[..at].ends_with("Masked<Map<String, ");
        !before && !after && !masked
    })
}
