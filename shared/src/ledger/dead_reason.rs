//! Why an event is a dead letter.

use serde::{Deserialize, Serialize};

use crate::base::time::Timestamp;

/// The reason why an event is a dead letter.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// The kind of reason, to count and to filter by.
    pub reason: Reason,
    /// The effect that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// The last error, without values.
    pub error: String,
    /// The number of attempts of that effect.
    pub attempts: u32,
    /// The moment of the death.
    pub at: Timestamp,
}

crate::base::masked::prints_only!(Death as "Death", reason, effect, attempts, at);

/// The kinds of reasons for which an event is a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The partner rejected the request for good.
    Terminal,
    /// The partner failed as often as the policy allows.
    AttemptsSpent,
    /// The partner failed, and the contact has had all the retries that the flow allows it.
    BudgetExhausted,
    /// The outcome of an effect is unknown.
    UnknownOutcome,
    /// An effect happened, but its answer lacks a result that the flow needs.
    ResultMissing,
    /// The event waited longer than its flow allows.
    Expired,
    /// A newer event of the same entity was applied meanwhile.
    Stale,
    /// A request could not be made from the event.
    Template,
    /// An enrichment failed.
    Enrichment,
    /// The event's flow is not deployed, or not any more.
    UnknownFlow,
    /// The flow cannot be run as the stack is configured, or as the flow was changed since the event was tried first.
    Misconfigured,
    /// Workers crashed on the event until the queue gave up.
    Crashed,
    /// The queue delivered the event too often, while no worker held it, and gave up.
    Undelivered,
    /// The queue held the event, but the ledger has no row for it.
    Orphaned,
    /// The ledger's row of the event cannot be read, or takes no more.
    Unreadable,
    /// The ledger does not take the event's payload, which it would have to keep for the event to go on.
    NotKept,
    /// The message is not an event.
    Malformed,
    /// The event broke its flow's schema, and the flow parks such events.
    Invalid,
}

impl Reason {
    /// Every reason, in the order of its declaration.
    pub const ALL: [Reason; 18] = [
        Reason::Terminal,
        Reason::AttemptsSpent,
        Reason::BudgetExhausted,
        Reason::UnknownOutcome,
        Reason::ResultMissing,
        Reason::Expired,
        Reason::Stale,
        Reason::Template,
        Reason::Enrichment,
        Reason::UnknownFlow,
        Reason::Misconfigured,
        Reason::Crashed,
        Reason::Undelivered,
        Reason::Orphaned,
        Reason::Unreadable,
        Reason::NotKept,
        Reason::Malformed,
        Reason::Invalid,
    ];

    /// The reason's name, as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Terminal => "terminal",
            Reason::AttemptsSpent => "attempts_spent",
            Reason::BudgetExhausted => "budget_exhausted",
            Reason::UnknownOutcome => "unknown_outcome",
            Reason::ResultMissing => "result_missing",
            Reason::Expired => "expired",
            Reason::Stale => "stale",
            Reason::Template => "template",
            Reason::Enrichment => "enrichment",
            Reason::UnknownFlow => "unknown_flow",
            Reason::Misconfigured => "misconfigured",
            Reason::Crashed => "crashed",
            Reason::Undelivered => "undelivered",
            Reason::Orphaned => "orphaned",
            Reason::Unreadable => "unreadable",
            Reason::NotKept => "not_kept",
            Reason::Malformed => "malformed",
            Reason::Invalid => "invalid",
        }
    }
}
