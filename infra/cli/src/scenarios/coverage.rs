//! Which parts of a flow scenarios touch: effects, guards, conditions, rows of answers, ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shared::flows::{Action, AnswerRule, Cap, Effect, Flow, Flows, Guarantee, Guard, OnError, OnInvalid};
use shared::ledger::{Noop, Progress, Row, State};
use shared::model::RowChange;
use sim::stage::{CallPurpose, CastEnd, DeliveryAnswer, MadeCall};

/// A part of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Covered {
    /// An effect is done.
    Effect(String, String),
    /// An effect's condition is true, or false.
    Condition(String, String, bool),
    /// A guard blocks an event, or has it wait.
    Guard(String, String),
    /// A human is asked.
    Approval(String),
    /// An event is done in safe mode.
    SafeMode(String),
    /// A row of an effect's table decides what an answer means. Rows of the effect come before those of its partner.
    Answer(String, String, usize),
    /// An event ends so.
    End(String, String),
}

impl Covered {
    /// The flow of which it is a part.
    pub fn flow(&self) -> &str {
        match self {
            Covered::Effect(flow, _)
            | Covered::Condition(flow, ..)
            | Covered::Guard(flow, _)
            | Covered::Approval(flow)
            | Covered::SafeMode(flow)
            | Covered::Answer(flow, ..)
            | Covered::End(flow, _) => flow,
        }
    }

    /// The column of the table in which it is counted.
    pub fn column(&self) -> usize {
        match self {
            Covered::Effect(..) => 0,
            Covered::Guard(..) | Covered::Approval(_) | Covered::SafeMode(_) => 1,
            Covered::Condition(..) => 2,
            Covered::Answer(..) => 3,
            Covered::End(..) => 4,
        }
    }

    /// All parts of a flow.
    pub fn all(flows: &Flows, flow: &Flow) -> BTreeSet<Covered> {
        let name = || flow.name.clone();
        let mut all = BTreeSet::new();
        for effect in &flow.effects {
            all.insert(Covered::Effect(name(), effect.id.clone()));
            if effect.when.is_some() {
                all.extend([true, false].map(|held| Covered::Condition(name(), effect.id.clone(), held)));
            }
            all.extend((1..=rows(flows, effect).len()).map(|row| Covered::Answer(name(), effect.id.clone(), row)));
        }
        all.extend(flow.guards.iter().map(|guard| Covered::Guard(name(), named(flow, guard))));
        all.extend(flow.approval.iter().map(|_| Covered::Approval(name())));
        all.extend(flow.safe_mode.iter().map(|_| Covered::SafeMode(name())));
        all.extend(ends(flow).into_iter().map(|end| Covered::End(name(), end.to_owned())));
        all
    }

    /// The parts that were touched.
    pub fn of(
        flows: &Flows,
        answers: &[DeliveryAnswer],
        calls: &[MadeCall],
        changes: &[RowChange],
        flow: &str,
    ) -> BTreeSet<Covered> {
        let mut covered = BTreeSet::new();
        if answers.iter().any(|answer| answer.problem() == Some("invalid-event")) {
            covered.insert(Covered::End(flow.to_owned(), REJECTED.to_owned()));
        }
        covered.extend(calls.iter().filter_map(|call| answered(flows, call)));
        for RowChange { after, .. } in changes {
            covered.extend(flows.flow(&after.flow).into_iter().flat_map(|flow| passed(flow, after)));
            covered.extend(ended(after));
        }
        covered
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Covered::Effect(_, effect) => write!(f, "effect {effect}"),
            Covered::Condition(_, effect, held) => write!(f, "condition of {effect}: {held}"),
            Covered::Guard(_, guard) => write!(f, "guard {guard}"),
            Covered::Approval(_) => write!(f, "approval"),
            Covered::SafeMode(_) => write!(f, "safe mode"),
            Covered::Answer(_, effect, row) => write!(f, "answers to {effect}: row {row}"),
            Covered::End(_, end) => write!(f, "end {end}"),
        }
    }
}

/// The end of an event that its sender is told about.
const REJECTED: &str = "rejected";

/// The rows of an effect's table, in the order in which they are asked.
pub fn rows<'f>(flows: &'f Flows, effect: &'f Effect) -> Vec<&'f AnswerRule> {
    if !matches!(effect.action, Action::Call(_)) {
        return Vec::new();
    }
    effect.answers.iter().chain(flows.partner_of(effect).into_iter().flat_map(|partner| &partner.answers)).collect()
}

/// How events of a flow can end, by what its file says. What only an operator, a crash or the time that passes brings
/// about is no part of the flow.
fn ends(flow: &Flow) -> Vec<&'static str> {
    let calls = || flow.effects.iter().filter(|effect| effect.integration().is_some());
    let may = [
        ("noop", !flow.guards.iter().all(|guard| matches!(guard, Guard::QuietHours(_))) || flow.approval.is_some()),
        ("dead: enrichment", flow.enrich.iter().any(|enrich| enrich.on_error == OnError::Dead)),
        ("dead: terminal", calls().next().is_some()),
        ("dead: attempts_spent", calls().next().is_some()),
        ("dead: budget_exhausted", calls().next().is_some() && flow.retry.budget_per_contact.is_some()),
        ("dead: result_missing", calls().any(needs_result)),
        ("dead: unknown_outcome", calls().any(|effect| effect.guarantee == Guarantee::None)),
    ];
    let at_the_door = if flow.on_invalid == OnInvalid::Park { "dead: invalid" } else { REJECTED };
    let may = may.into_iter().filter(|(_, may)| *may).map(|(end, _)| end);
    ["succeeded", at_the_door].into_iter().chain(may).collect()
}

/// Whether an effect is not done without something in its answer.
fn needs_result(effect: &Effect) -> bool {
    effect.result.values().any(|result| !result.optional)
}

fn ended(row: &Row) -> Option<Covered> {
    let end = match (row.state, &row.death) {
        (State::Dead, Some(death)) => format!("dead: {}", death.reason.as_str()),
        (state, _) if state.is_settled() => state.as_str().to_owned(),
        _ => return None,
    };
    Some(Covered::End(row.flow.clone(), end))
}

/// The row that decided what an answer means.
fn answered(flows: &Flows, call: &MadeCall) -> Option<Covered> {
    let CallPurpose { flow, effect, asks: false, .. } = call.purpose.as_ref()? else { return None };
    let CastEnd::Answer(answer) = &call.reaction.as_ref()?.end else { return None };
    let effect = flows.flow(flow)?.effects.iter().find(|known| known.id == *effect)?;
    let decided = flows.read_answer(effect, answer).row()?;
    let row = rows(flows, effect).iter().position(|row| std::ptr::eq(*row, decided))?;
    Some(Covered::Answer(flow.clone(), effect.id.clone(), row + 1))
}

/// The parts of a flow that a row shows.
fn passed(flow: &Flow, row: &Row) -> Vec<Covered> {
    let name = || flow.name.clone();
    let mut covered = Vec::new();
    for effect in &flow.effects {
        let Some(entry) = row.entry(effect) else { continue };
        match entry.progress {
            // Safe mode skips effects, too: nobody asked for the condition.
            Progress::Skipped if row.safe => (),
            Progress::Skipped => {
                covered.extend(effect.when.iter().map(|_| Covered::Condition(name(), effect.id.clone(), false)));
            }
            Progress::Done { .. } => {
                covered.push(Covered::Effect(name(), effect.id.clone()));
                covered.extend(effect.when.iter().map(|_| Covered::Condition(name(), effect.id.clone(), true)));
            }
            Progress::Intent | Progress::Failed { .. } | Progress::Unknown { .. } => (),
        }
    }
    covered.extend(row.noop.iter().map(|noop| Covered::Guard(name(), blocked_by(flow, noop))));
    covered.extend(waits_for_guard(flow, row).map(|guard| Covered::Guard(name(), guard)));
    covered.extend((row.state == State::AwaitingApproval).then(|| Covered::Approval(name())));
    covered.extend((row.safe && !row.effects.is_empty()).then(|| Covered::SafeMode(name())));
    covered
}

/// A guard's name. Of several caps, each has its number.
fn named(flow: &Flow, guard: &Guard) -> String {
    let kinds = kinds_of_caps(flow);
    match guard.as_cap().and_then(|cap| kinds.iter().position(|known| *known == kind_of(cap))) {
        Some(place) if kinds.len() > 1 => format!("{} {}", guard.name(), place + 1),
        _ => guard.name().to_owned(),
    }
}

/// What tells one cap from another in what the ledger keeps of a no-op.
type CapKind<'f> = (&'f str, u64, u64);

fn kind_of(cap: &Cap) -> CapKind<'_> {
    (&cap.channel, cap.limit.into(), cap.per.as_secs())
}

fn kinds_of_caps(flow: &Flow) -> Vec<CapKind<'_>> {
    let mut kinds = Vec::new();
    for kind in flow.caps().map(kind_of) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// The guard that made an event a no-op.
fn blocked_by(flow: &Flow, noop: &Noop) -> String {
    let fact = |name: &str| noop.facts[name].as_u64();
    let is_it = |cap: &Cap| {
        let (channel, limit, per) = kind_of(cap);
        noop.facts["channel"] == channel && fact("limit") == Some(limit) && fact("per_seconds") == Some(per)
    };
    let cap = flow.guards.iter().find(|guard| noop.guard == "cap" && guard.as_cap().is_some_and(is_it));
    cap.map_or_else(|| noop.guard.clone(), |guard| named(flow, guard))
}

/// Why an event waits that a guard has wait.
const QUIET: &str = "quiet hours";

/// The guard that an event waits for.
fn waits_for_guard(flow: &Flow, row: &Row) -> Option<String> {
    let quiet = flow.guards.iter().find(|guard| matches!(guard, Guard::QuietHours(_)))?;
    row.wait.as_ref().is_some_and(|wait| wait.why == QUIET).then(|| quiet.name().to_owned())
}

/// One line of the table: a flow, and how many parts of each kind are touched.
pub struct CoverageLine {
    /// The flow.
    pub flow: String,
    /// For each column, how many parts are touched, and how many there are.
    pub counts: [(usize, usize); 5],
    /// What is not touched.
    pub missing: Vec<Covered>,
}

/// The table of all flows.
pub fn table(flows: &Flows, covered: &BTreeSet<Covered>) -> Vec<CoverageLine> {
    let line = |flow: &Flow| {
        let mut counts = [(0, 0); 5];
        let mut missing = Vec::new();
        for part in Covered::all(flows, flow) {
            let (touched, all) = &mut counts[part.column()];
            *all += 1;
            match covered.contains(&part) {
                true => *touched += 1,
                false => missing.push(part),
            }
        }
        CoverageLine { flow: flow.name.clone(), counts, missing }
    };
    flows.all().map(line).collect()
}

/// By flow, what scenarios cover.
pub fn by_flow(covered: &BTreeSet<Covered>) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for part in covered {
        *counts.entry(part.flow()).or_default() += 1;
    }
    counts
}
