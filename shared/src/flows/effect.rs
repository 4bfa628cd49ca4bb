//! Effects in flow files: what is done for an event.

mod check;
mod named;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

pub(super) use check::check;
pub use named::NamedCall;

use super::lookup::WrittenLookup;
use super::template::{Body, Condition, Scope, TemplateError};
use super::{AnswerRule, Flows, Integration, Invoke, LONGEST_RUN, Lookup, Request, ResultAt, Vars, template_reads};
use crate::base::time::{Timestamp, optional_duration};

/// One side effect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "Written")]
#[cfg_attr(feature = "schema", serde(into = "Written"))]
pub struct Effect {
    /// The effect's name within the flow. The ledger knows the effect by it, unless the effect was renamed.
    pub id: String,
    /// The names that the effect had before, the oldest first. The ledger and the partner go on knowing it by the oldest.
    pub was: Vec<String>,
    /// The renamed effects of the whole flow, each as a name in the ledger and the id of today: templates read results by
    /// the id of today. The parser fills it in.
    pub(in crate::flows) renamed: Vec<(String, String)>,
    /// The effect's action.
    pub action: Action,
    /// What the effect says itself, where it names a call of its partner.
    pub named: Option<Box<NamedCall>>,
    /// The condition under which the effect is done. For the effects that need it, a skipped effect counts as done.
    pub when: Option<Condition>,
    /// The effects that must be done before. Without a list, the one before it; with an empty list,
    /// none: such effects run side by side.
    pub needs: Option<Vec<String>>,
    /// The partner's guarantee for a call whose outcome is unknown.
    pub guarantee: Guarantee,
    /// The lookup that tells whether a call happened. A function is asked without one.
    pub lookup: Option<Lookup>,
    /// The parts of the answer that are kept, by name. Without one that is not optional, the effect is not done.
    pub result: BTreeMap<String, ResultAt>,
    /// The meanings of the answers to this effect, before those of its integration.
    pub answers: Vec<AnswerRule>,
}

/// The action of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A call to a partner.
    Call(Call),
    /// An invocation of a Lambda function of the team's own.
    Invoke(Invoke),
    /// An upsert of a contact. The same again changes nothing.
    Upsert(Upsert),
    /// A human's answer to an event that awaits approval. The same again changes nothing.
    Decide(Decide),
}

/// A human's answer, as templates over the event that brings it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// The question: the value of the button that was pressed.
    pub question: Body,
    /// The answer: `approve` or `reject`.
    pub answer: Body,
    /// The name of the human who answered.
    pub by: Body,
}

/// A call to a partner.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The partner's name.
    pub integration: String,
    /// The request that is sent.
    pub request: Request,
    /// What the templates of the request and the lookup read as `with`.
    pub with: Option<Body>,
    /// The variables of the partner, which the parser puts here: a plan knows the flow only.
    pub vars: Vars,
}

impl Call {
    fn new(integration: String, request: Request, with: Option<Body>) -> Self {
        Call { integration, request, with, vars: Vars::default() }
    }

    /// The values that `with` may read, made from those of the effect. Secret variables are not among them.
    pub fn outer_scope<'s>(&self, scope: Scope<'s>, key: String) -> Scope<'s> {
        let vars = (!self.vars.is_empty()).then(|| Value::Object(self.vars.plain()));
        Scope { vars, key: Some(key), ..scope }
    }

    /// The values that the templates of the request may read: those that `with` reads, and `with`.
    pub fn inner_scope<'s>(&self, outer: Scope<'s>) -> Result<Scope<'s>, TemplateError> {
        let with = self.with.as_ref().map(|with| with.render(&outer)).transpose()?;
        Ok(Scope { with, ..outer })
    }
}

/// An upsert of the flow's contact, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Upsert {
    /// The fields to set; null removes one.
    #[serde(default)]
    pub fields: BTreeMap<String, Body>,
}

/// An effect as it is written: a call with `integration` and `request`, an `invoke`, or an `upsert`.
#[derive(Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
struct Written {
    /// The effect's name within the flow. The ledger knows the effect by it, unless the effect was renamed.
    id: String,
    /// The names that the effect had before, the oldest first. It keeps its past and its key at the partner.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Vec::is_empty"))]
    was: Vec<String>,
    /// A call that the partner's file names: `<integration>.<call>`, instead of an integration and a request.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    call: Option<String>,
    /// The partner that is called, by its name in integrations.yaml.
    integration: Option<String>,
    /// The request that is sent.
    request: Option<Request>,
    /// The Lambda function of the team's own that does the effect, instead of a partner: its name, or its integration's.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    invoke: Option<String>,
    /// The longest wait for the function's answer.
    #[serde(default, deserialize_with = "optional_duration")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::base::time::DurationText>"),
        serde(serialize_with = "super::schema::some", skip_serializing_if = "Option::is_none")
    )]
    timeout: Option<Duration>,
    /// What the effect gives to the call that it names or to its function, or what the templates of its request read as
    /// `with.<name>`.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    with: Option<Body>,
    /// An upsert of the flow's contact, instead of a call.
    upsert: Option<Upsert>,
    /// A human's answer to an event that awaits approval, instead of a call.
    decide: Option<Decide>,
    /// The condition under which the effect is done: an expression such as `event.data.phone is defined`.
    when: Option<Condition>,
    /// The effects that must be done before. Without a list, the one above; with an empty list, none.
    needs: Option<Vec<String>>,
    /// The partner's guarantee for a call whose outcome is unknown.
    guarantee: Option<Guarantee>,
    /// The lookup that tells whether a call happened.
    lookup: Option<WrittenLookup>,
    /// The parts of the answer that are kept, by name: a JSON pointer into the body, an expression over `status`,
    /// `headers` and `body` in braces, or `{at: …, optional: true}`.
    #[serde(default)]
    result: BTreeMap<String, ResultAt>,
    /// The meanings of the answers to this effect, before those of its integration. The first row that fits decides.
    #[serde(default)]
    answers: Vec<AnswerRule>,
}

impl TryFrom<Written> for Effect {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let (action, named, lookup) = action_of(&written)?;
        let Written { id, was, when, needs, guarantee, result, answers, .. } = written;
        let guarantee = guarantee.unwrap_or(match action {
            Action::Call(_) | Action::Invoke(_) => Guarantee::None,
            // Idempotent by construction.
            Action::Upsert(_) | Action::Decide(_) => Guarantee::Native,
        });
        Ok(Effect { id, was, renamed: Vec::new(), action, named, when, needs, guarantee, lookup, result, answers })
    }
}

/// What an effect does, the call that it names for that, and how it is looked up.
type Does = (Action, Option<Box<NamedCall>>, Option<Lookup>);

/// What a written effect does, if it does one thing and says of it what belongs to it.
fn action_of(written: &Written) -> Result<Does, String> {
    let id = &written.id;
    let Written { call, integration, request, invoke, with, timeout, upsert, decide, .. } = written.clone();
    let calls = integration.is_some() || request.is_some();
    if call.is_some() && calls {
        return Err(format!("effect `{id}` names a call: that has its integration and its request"));
    }
    let kinds = [call.is_some() || calls, invoke.is_some(), upsert.is_some(), decide.is_some()];
    if kinds.into_iter().filter(|is| *is).count() > 1 {
        return Err(format!("effect `{id}` does two things: make it two effects"));
    }
    if invoke.is_none() && timeout.is_some() {
        return Err(format!("effect `{id}` invokes no function: it takes no timeout"));
    }
    match (call, integration.zip(request), invoke, upsert, decide) {
        (Some(name), ..) => written.named(name),
        (_, Some((integration, request)), ..) => {
            Ok((Action::Call(Call::new(integration, request, with)), None, written.lookup_of_call()?))
        }
        (_, _, Some(integration), ..) => {
            let invoke = written.invocation(Invoke { integration, with, timeout, asked_after: None })?;
            Ok((Action::Invoke(invoke), None, None))
        }
        (.., Some(_), None) | (.., None, Some(_)) if written.is_judged() => {
            Err(format!("effect `{id}` calls no partner: it takes no with, guarantee, lookup, result or answers"))
        }
        (.., Some(upsert), _) => Ok((Action::Upsert(upsert), None, None)),
        (.., Some(decide)) => Ok((Action::Decide(decide), None, None)),
        _ => Err(format!("effect `{id}` needs a call, or an integration and a request, or an invoke, or an upsert")),
    }
}

impl Written {
    /// Whether it says something that only effects say which call somebody.
    fn is_judged(&self) -> bool {
        let Written { with, guarantee, lookup, result, answers, .. } = self;
        with.is_some() || guarantee.is_some() || lookup.is_some() || !result.is_empty() || !answers.is_empty()
    }

    /// The call of its partner that it names, until the partner says what that is.
    fn named(&self, name: String) -> Result<Does, String> {
        let (integration, _) = NamedCall::parts(&name)?;
        let action = Action::Call(Call::new(integration.to_owned(), NamedCall::no_request(), self.with.clone()));
        let lookup = self.lookup_of_call()?;
        let Written { with, guarantee, result, answers, .. } = self.clone();
        let named = NamedCall { name, with, guarantee, lookup: lookup.clone(), result, answers };
        Ok((action, Some(Box::new(named)), lookup))
    }

    fn lookup_of_call(&self) -> Result<Option<Lookup>, String> {
        let needs = "needs a request, and what is `found` in its answer";
        let told = || format!("the lookup of effect `{}` {needs}", self.id);
        self.lookup.clone().map(|lookup| lookup.of_call().ok_or_else(told)).transpose()
    }

    /// The invocation, with the time after which its function may be asked. Without a word, a function surely runs no
    /// more after the longest that Lambda allows.
    fn invocation(&self, invoke: Invoke) -> Result<Invoke, String> {
        let id = &self.id;
        if !self.answers.is_empty() {
            let told = "invokes a function, which says itself what happened: it takes no answers";
            return Err(format!("effect `{id}` {told}"));
        }
        let default = (self.guarantee == Some(Guarantee::Lookup)).then_some(LONGEST_RUN);
        let asked_after = match &self.lookup {
            Some(lookup) => Some(lookup.clone().of_function().ok_or_else(|| {
                format!("effect `{id}` invokes a function, which is asked itself: its lookup takes only `after`")
            })?),
            None => default,
        };
        Ok(Invoke { asked_after, ..invoke })
    }
}

#[cfg(feature = "schema")]
impl From<Effect> for Written {
    fn from(effect: Effect) -> Self {
        let Effect { id, was, action, named, when, needs, guarantee, lookup, result, answers, .. } = effect;
        let lookup = lookup.map(WrittenLookup::from);
        let mut written = Written { id, was, when, needs, lookup, result, answers, ..Written::default() };
        match (action, named.map(|named| *named)) {
            (Action::Call(_), Some(NamedCall { name, with, guarantee, lookup, result, answers })) => {
                let (call, lookup) = (Some(name), lookup.map(WrittenLookup::from));
                return Written { call, with, guarantee, lookup, result, answers, ..written };
            }
            (Action::Call(Call { integration, request, with, .. }), None) => {
                (written.integration, written.request, written.with) = (Some(integration), Some(request), with);
            }
            (Action::Invoke(Invoke { integration, with, timeout, asked_after }), _) => {
                (written.invoke, written.with, written.timeout) = (Some(integration), with, timeout);
                written.lookup = asked_after.map(WrittenLookup::to_function);
            }
            (Action::Upsert(upsert), _) => return Written { upsert: Some(upsert), ..written },
            (Action::Decide(decide), _) => return Written { decide: Some(decide), ..written },
        }
        Written { guarantee: Some(guarantee), ..written }
    }
}

impl Effect {
    /// The name by which the ledger and the partner know the effect: its oldest one. A version from before the renaming
    /// may work on the same event, during the deploy or after a roll-back, and must find what was done.
    pub fn ledger_name(&self) -> &str {
        self.was.first().unwrap_or(&self.id)
    }

    /// Whether an event that was accepted with these effects did not have this one.
    pub fn is_new_since(&self, accepted: &[String]) -> bool {
        !self.names().any(|name| accepted.iter().any(|known| known == name))
    }

    /// The renamed effects of the effect's flow, each as a name in the ledger and the id of today.
    pub fn renamed(&self) -> &[(String, String)] {
        &self.renamed
    }

    /// Every name that the effect has or had.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.was.iter().chain([&self.id]).map(String::as_str)
    }

    /// The names of results without which the effect is not done.
    pub fn required_results(&self) -> impl Iterator<Item = &str> {
        self.result.iter().filter(|(_, at)| !at.optional).map(|(name, _)| name.as_str())
    }

    /// The names of the effect's results.
    pub fn results(&self) -> impl Iterator<Item = &str> {
        let own: &[&str] = match self.action {
            Action::Call(_) | Action::Invoke(_) => &[],
            Action::Upsert(_) => &["id", "created"],
            Action::Decide(_) => &["id", "state", "refused"],
        };
        self.result.keys().map(String::as_str).chain(own.iter().copied())
    }

    /// Whether the effect sends our idempotency key in its request, and not under a header of the integration.
    fn sends_key(&self) -> bool {
        matches!(&self.action, Action::Call(call) if template_reads::reads_key(call))
    }

    /// Whether the effect sends GraphQL: then a 200 alone does not say that it is done.
    pub fn is_graphql(&self) -> bool {
        matches!(&self.action, Action::Call(call) if call.request.graphql.is_some())
    }

    /// How long after a lost call its partner or its function is asked whether it happened, if it is asked.
    ///
    /// A named call may bring a lookup that its effect does not trust: it may find somebody else's call, or need a right
    /// that we do not have. So with the guarantee `none` nobody is asked.
    pub fn asked_after(&self) -> Option<Duration> {
        if self.guarantee == Guarantee::None {
            return None;
        }
        match &self.action {
            Action::Invoke(invoke) => invoke.asked_after,
            Action::Call(_) | Action::Upsert(_) | Action::Decide(_) => self.lookup.as_ref().map(|lookup| lookup.after),
        }
    }

    /// The integration that the effect calls, if it calls one.
    pub fn integration(&self) -> Option<&str> {
        match &self.action {
            Action::Call(call) => Some(&call.integration),
            Action::Invoke(invoke) => Some(&invoke.integration),
            Action::Upsert(_) | Action::Decide(_) => None,
        }
    }
}

/// The partner's guarantee for a call whose outcome is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Guarantee {
    /// The partner honours our idempotency key: the same call again is harmless.
    Native,
    /// The request itself may be repeated: it sets a whole resource, or it upserts. The stale guard keeps a late
    /// repetition from overwriting a newer event's.
    Idempotent,
    /// The partner can be asked whether the call happened.
    Lookup,
    /// The partner guarantees nothing: an unknown outcome is parked for an operator. The effect happens at most once.
    #[default]
    None,
}

impl Guarantee {
    /// Whether a call that may have happened can simply be made again.
    pub fn allows_repetition(self) -> bool {
        matches!(self, Guarantee::Native | Guarantee::Idempotent)
    }
}

impl Flows {
    /// The partner that an effect calls, if it calls one.
    pub fn partner_of(&self, effect: &Effect) -> Option<&Integration> {
        effect.integration().and_then(|name| self.integration(name))
    }

    /// The partner's guarantee now, for a call whose outcome is unknown and that was first tried
    /// then. A partner that has forgotten our key does not honour it any more.
    pub fn trust(&self, effect: &Effect, first_tried: Timestamp, now: Timestamp) -> Guarantee {
        // Our own contacts remember for ever.
        let window = self.partner_of(effect).map_or(Duration::MAX, |partner| partner.key_window);
        match effect.guarantee {
            Guarantee::Native if now.since(first_tried) < window => Guarantee::Native,
            Guarantee::Idempotent => Guarantee::Idempotent,
            Guarantee::Native | Guarantee::Lookup if effect.asked_after().is_some() => Guarantee::Lookup,
            Guarantee::Native | Guarantee::Lookup | Guarantee::None => Guarantee::None,
        }
    }
}
