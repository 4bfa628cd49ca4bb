//! The partners' part in a scenario: what they answer, in order, and what they remember of what they did.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Map, Value, json};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::flows::{Effect, Flows, PartnerAnswer};
use sim::stage::{CallPurpose, Cast, CastEnd, MadeCall, Reaction, success_body};

use super::written::{Keeps, KeptGuarantee, Then, WrittenReaction};

/// Partners that follow a script. What no line of it is about is done, and answered with what the flow needs.
pub struct ScriptedCast {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is left of each integration's lines, with how often each is still good.
    lines: BTreeMap<String, Vec<(WrittenReaction, usize)>>,
    /// What partners really keep, where that is not what flows declare.
    keeps: BTreeMap<String, Keeps>,
    /// What was done, in order.
    acts: Vec<Act>,
    /// How often each integration was asked by an effect's lookup for what only the script could answer.
    unanswered: BTreeMap<(String, String), usize>,
    /// The body of the first success under each key of ours.
    answered: BTreeMap<(String, String), Value>,
}

/// Something that a partner really did.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// The event.
    pub event: EventId,
    /// The flow.
    pub flow: String,
    /// The effect.
    pub effect: String,
    /// When it was done.
    pub at: Timestamp,
    /// From when on a lookup finds it.
    found_at: Timestamp,
    /// Whether it was something new: not what a partner knows to have done before.
    pub counts: bool,
}

impl ScriptedCast {
    /// Partners with these lines, and what they really keep, by integration.
    pub fn new(lines: &BTreeMap<String, Vec<WrittenReaction>>, keeps: &BTreeMap<String, Keeps>) -> Self {
        let times = |line: &WrittenReaction| if line.always { usize::MAX } else { line.times.unwrap_or(1) };
        let lines = lines.iter().map(|(integration, lines)| {
            (integration.clone(), lines.iter().map(|line| (line.clone(), times(line))).collect())
        });
        ScriptedCast { state: Mutex::new(State { lines: lines.collect(), keeps: keeps.clone(), ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What partners really did that was new.
    pub fn acts(&self) -> Vec<Act> {
        self.state().acts.iter().filter(|act| act.counts).cloned().collect()
    }

    /// Forgets what was done for an event, of which nobody asks any more.
    pub fn forget(&self, event: &EventId) {
        let mut state = self.state();
        state.acts.retain(|act| act.event != *event);
        state.answered.retain(|(known, _), _| known != event.as_str());
    }

    /// How often each integration was asked by an effect's lookup, and no line had the answer.
    pub fn unanswered(&self) -> BTreeMap<(String, String), usize> {
        self.state().unanswered.clone()
    }

    /// The lines that no call was left for, by integration.
    pub fn left(&self) -> Vec<String> {
        let state = self.state();
        let open =
            |lines: &&Vec<(WrittenReaction, usize)>| lines.iter().any(|(line, times)| *times > 0 && !line.always);
        state.lines.iter().filter(|(_, lines)| open(lines)).map(|(integration, _)| integration.clone()).collect()
    }
}

impl Cast for ScriptedCast {
    fn react(&self, call: &MadeCall, flows: &Flows) -> Reaction {
        let mut state = self.state();
        let line = state.next(call);
        let mut reaction = match &line {
            Some(line) => state.by(line, call, flows),
            None => state.well(call, flows),
        };
        if let Some(purpose @ CallPurpose { asks: false, .. }) = &call.purpose
            && reaction.acts
        {
            let found_after = line.and_then(|line| line.found_after).map_or(Duration::ZERO, |span| span.0);
            state.act(purpose, call, found_after, flows);
        }
        if matches!(&call.purpose, Some(CallPurpose { asks: true, .. }) | None) {
            reaction.acts = false;
        }
        reaction
    }
}

impl State {
    /// The line that is about a call: the first that is left.
    fn next(&mut self, call: &MadeCall) -> Option<WrittenReaction> {
        let lines = self.lines.get_mut(&call.integration)?;
        let fits = |line: &WrittenReaction| {
            let effect = call.purpose.as_ref().map(|purpose| purpose.effect.as_str());
            let asks = call.purpose.as_ref().is_some_and(|purpose| purpose.asks);
            line.effect.as_deref().is_none_or(|named| effect == Some(named))
                && line.lookup.is_none_or(|lookup| lookup == asks)
        };
        let (line, times) = lines.iter_mut().find(|(line, times)| *times > 0 && fits(line))?;
        *times = times.saturating_sub(1);
        Some(line.clone())
    }

    fn by(&mut self, line: &WrittenReaction, call: &MadeCall, flows: &Flows) -> Reaction {
        let status = line.status.unwrap_or(200);
        let success = (200..300).contains(&status);
        let acts = line.acted.unwrap_or(success && line.then.is_none());
        let after = line.after.map_or(Duration::ZERO, |span| span.0);
        let mut usual = || match success {
            true => match self.well(call, flows).end {
                CastEnd::Answer(answer) => answer.body,
                _ => None,
            },
            false => None,
        };
        let body = match &line.body {
            Some(body) => Some(body.clone()).filter(|body| !body.is_null()),
            None => usual(),
        };
        let headers = line.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        let end = match line.then {
            None => CastEnd::Answer(PartnerAnswer { status, headers, body }),
            Some(Then::Silence) => CastEnd::Silence,
            Some(Then::Reset) => CastEnd::Reset,
            Some(Then::Unreachable) => CastEnd::Unreachable,
            Some(Then::Crash) => CastEnd::Crash,
        };
        Reaction { acts, after, end }
    }

    /// A partner does what it is asked for: something new, unless it keeps to what it did before.
    fn act(&mut self, purpose: &CallPurpose, call: &MadeCall, found_after: Duration, flows: &Flows) {
        let CallPurpose { event, flow, effect, .. } = purpose.clone();
        let declared = flows.flow(&flow).and_then(|flow| flow.effects.iter().find(|known| known.id == effect));
        let Some(declared) = declared else { return };
        let kept = self.keeps.get(&call.integration);
        let guarantee = kept.map_or(declared.guarantee.into(), |kept| kept.guarantee);
        let known = flows.integration(&call.integration).map(|partner| partner.key_window).unwrap_or_default();
        let window = kept.and_then(|kept| kept.key_window).map_or(known, |span| span.0);
        let before = |act: &&Act| act.counts && act.event == event && act.effect == effect;
        let last = self.acts.iter().rev().find(before).map(|act| act.at);
        let counts = match guarantee {
            KeptGuarantee::Native => last.is_none_or(|last| last + window <= call.at),
            KeptGuarantee::Idempotent => last.is_none(),
            KeptGuarantee::Lookup | KeptGuarantee::None => true,
        };
        self.acts.push(Act { event, flow, effect, at: call.at, found_at: call.at + found_after, counts });
    }

    /// What a partner does that is well: it does what it is asked for, and finds what it did.
    fn well(&mut self, call: &MadeCall, flows: &Flows) -> Reaction {
        let purpose = call.purpose.as_ref();
        let effect = purpose
            .and_then(|purpose| flows.flow(&purpose.flow)?.effects.iter().find(|effect| effect.id == purpose.effect));
        match (purpose, effect) {
            (Some(purpose), Some(effect)) if purpose.asks => {
                let its = |act: &Act| (&act.event, &act.effect) == (&purpose.event, &purpose.effect);
                let done = self.acts.iter().any(|act| its(act) && act.found_at <= call.at);
                let reaction = found(effect, done, call, flows);
                if matches!(&reaction.end, CastEnd::Answer(answer) if answer.status == UNANSWERED) {
                    *self.unanswered.entry((call.integration.clone(), effect.id.clone())).or_default() += 1;
                }
                reaction
            }
            _ if call.integration.ends_with("/_token") => {
                Reaction::success(json!({"access_token": "token", "token_type": "Bearer", "expires_in": 3600}))
            }
            (Some(purpose), Some(_)) => {
                let key = (purpose.event.to_string(), purpose.effect.clone());
                let made = || success_body(flows, &call.integration, call.number);
                let body = self.answered.entry(key).or_insert_with(made).clone();
                Reaction::success(if call.method == "INVOKE" {
                    json!({"outcome": "done", "result": body})
                } else {
                    body
                })
            }
            _ => Reaction::success(json!({"ok": true})),
        }
    }
}

/// What a lookup is answered that only the author of a script can answer.
const UNANSWERED: u16 = 500;

/// The answer to the question whether a call happened. What an expression looks for, only the author of a script knows.
fn found(effect: &Effect, done: bool, call: &MadeCall, flows: &Flows) -> Reaction {
    if call.method == "INVOKE" {
        let result = success_body(flows, &call.integration, call.number);
        let outcome = if done { json!({"outcome": "found", "result": result}) } else { json!({"outcome": "absent"}) };
        return Reaction::success(outcome);
    }
    let lookup = effect.lookup.as_ref();
    let mut body = success_body(flows, &call.integration, call.number);
    let pointers = lookup.into_iter().flat_map(|lookup| [&lookup.found].into_iter().chain(lookup.result.values()));
    for pointer in pointers.filter_map(|place| place.pointer()) {
        plant(&mut body, pointer, json!(format!("{}-found", call.integration)));
    }
    let status = match (done, lookup.is_some_and(|lookup| lookup.found.pointer().is_some())) {
        (true, true) => 200,
        // It did it, and what the flow looks for is an expression: only a line of the script can say how it is found.
        (true, false) => UNANSWERED,
        (false, _) => 404,
    };
    let body = (status == 200).then_some(body);
    let answer = PartnerAnswer { status, headers: BTreeMap::new(), body };
    Reaction { acts: false, after: Duration::ZERO, end: CastEnd::Answer(answer) }
}

/// Puts a value at a JSON pointer, making objects on the way.
pub fn plant(body: &mut Value, pointer: &str, value: Value) {
    let mut place = body;
    for step in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = place.as_object_mut().expect("it was made one").entry(step).or_insert(Value::Null);
    }
    *place = value;
}
