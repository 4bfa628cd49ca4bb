//! Safe mode in flow files: what a flow does while it is on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Action, Effect, Flow, Flows, Guard, Request};
use crate::base::suggest::suggest;
use crate::base::time::{DurationText, optional_duration};
use crate::base::wrong::{Wrong, step};

/// The changes to a flow while its safe mode is on. What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub struct SafeMode {
    /// The requests that are sent instead, by the effects' ids.
    pub requests: BTreeMap<String, Request>,
    /// The effects that are not done.
    pub skip: Vec<String>,
    /// Tighter caps, by their channels.
    pub caps: BTreeMap<String, TightCap>,
    /// How long safe mode is turned on by itself when the breaker of one of the flow's partners opens.
    #[serde(deserialize_with = "optional_duration")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<DurationText>"),
        serde(serialize_with = "super::schema::some")
    )]
    pub on_breaker: Option<Duration>,
}

/// A cap in safe mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct TightCap {
    /// The most events that reach the entity in that time.
    pub limit: u32,
    /// The stretch of time that the cap looks back on.
    #[serde(with = "DurationText")]
    pub per: Duration,
}

impl Flow {
    /// The flow as it is while its safe mode is on.
    #[must_use]
    pub fn in_safe_mode(mut self) -> Flow {
        let Some(safe) = self.safe_mode.clone() else { return self };
        for Effect { id, action, named, .. } in &mut self.effects {
            if let (Action::Call(call), Some(request)) = (action, safe.requests.get(id)) {
                // A named call keeps what its request needs; another request may read more of it.
                call.with = named.as_ref().and_then(|named| named.with.clone()).or(call.with.take());
                call.request = request.clone();
            }
        }
        for guard in &mut self.guards {
            if let Guard::Cap(cap) = guard
                && let Some(tight) = safe.caps.get(&cap.channel)
            {
                (cap.limit, cap.per) = (tight.limit, tight.per);
            }
        }
        self
    }

    /// Whether an effect is not done while safe mode is on.
    pub fn skips_in_safe_mode(&self, effect: &Effect) -> bool {
        self.safe_mode.as_ref().is_some_and(|safe| safe.skip.contains(&effect.id))
    }
}

/// The mistakes in a flow's safe mode.
pub(super) fn check(flow: &Flow, all: &Flows) -> Vec<Wrong> {
    let Some(safe) = &flow.safe_mode else { return Vec::new() };
    let is_call = |id: &str| flow.effects.iter().any(|e| e.id == id && matches!(e.action, Action::Call(_)));
    let no_call = safe.requests.keys().filter(|id| !is_call(id)).map(|id| {
        Wrong::at(format!("/safe_mode/requests/{id}"), format!("`{id}` is no effect of this flow that calls a partner"))
            .hint(suggest(id, flow.effects.iter().map(|effect| effect.id.as_str())))
    });
    let no_effect = safe.skip.iter().enumerate().filter(|(_, id)| !flow.effects.iter().any(|e| e.id == **id));
    let no_effect = no_effect.map(|(index, id)| {
        Wrong::at(format!("/safe_mode/skip/{index}"), format!("`{id}` is no effect of this flow"))
            .hint(suggest(id, flow.effects.iter().map(|effect| effect.id.as_str())))
    });
    let loose = safe.caps.iter().filter_map(|(channel, tight)| {
        let cap = flow.caps().find(|cap| cap.channel == *channel);
        let what = match cap {
            None => format!("no guard caps `{channel}`"),
            Some(cap) if tight.limit > cap.limit || tight.per < cap.per => {
                format!("the cap of `{channel}` is looser in safe mode than without it")
            }
            Some(_) => return None,
        };
        Some(Wrong::at(format!("/safe_mode/caps/{channel}"), what))
    });
    let sent = safe.requests.iter().flat_map(|(id, request)| {
        let effect = flow.effects.iter().find(|effect| effect.id == *id);
        let wrong = effect.and_then(|effect| all.partner_of(effect)).map(|partner| request.check(partner));
        let at = format!("/safe_mode/requests{}", step(id));
        wrong.unwrap_or_default().into_iter().map(move |wrong| wrong.under(&at))
    });
    no_call.chain(no_effect).chain(loose).chain(sent).collect()
}
