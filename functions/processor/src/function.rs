//! One invocation of a function of the team's own: the document, and the time that is left.

use serde_json::Value;
use shared::effects::invocation::{FunctionRequest, InvocationParts, InvokeFailure, Purpose};
use shared::flows::template::TemplateError;
use shared::flows::{Effect, Flow, Invoke};
use shared::ledger::Row;

use crate::partner::{tell_if_slow, time_left};
use crate::work::Work;

/// The request that lets a function do an effect, or asks it whether the effect happened. It tells the function until
/// when its answer is waited for: no longer than the invocation lasts.
pub(crate) fn function_request(
    work: &Work<'_>,
    flow: &Flow,
    row: &Row,
    effect: &Effect,
    invoke: &Invoke,
    purpose: Purpose,
) -> Result<FunctionRequest, TemplateError> {
    let flows = &work.processor.flows;
    let integration = flows.partner_of(effect).expect("parsed flows have an integration for each function");
    let function = integration.function.clone().expect("a parsed flow invokes functions");
    let timeout = invoke.timeout.unwrap_or(integration.timeout).min(time_left(work));
    let ids = work.span_ids();
    let span = match purpose {
        Purpose::Do => ids.called(row.epoch, &effect.id),
        Purpose::Ask => ids.looked_up(row.epoch, &effect.id),
    };
    let deadline = work.now() + timeout;
    let parts = InvocationParts { effect, invoke, flow, event: work.event, row, span, deadline };
    let document = parts.document(purpose)?.to_json();
    Ok(FunctionRequest { integration: invoke.integration.clone(), function, document, timeout })
}

/// Invokes the function.
pub(crate) async fn send_to_function(work: &Work<'_>, request: FunctionRequest) -> Result<Value, InvokeFailure> {
    let integration = request.integration.clone();
    tell_if_slow(work, &integration, work.processor.functions.invoke(request)).await
}
