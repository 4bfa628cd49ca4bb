//! What the functions need from the world, in our words.
//!
//! Each port is as narrow as one function's use of it. One contract suite checks every adapter of a
//! port, the model and the real one alike.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::Batches;
use crate::budget::{Budget, Spending};
use crate::cap::{Count, Counter};
use crate::contact::{ContactId, Fields, Upsert, Upserted};
use crate::event::Event;
use crate::key::EventId;
use crate::ledger::{Claim, Closed, Death, Found, Lease, Row};
use crate::limit::{Draw, Tat};
use crate::metric::Fact;
use crate::outcome::{Answer, NoAnswer};
use crate::pressure::{Leases, State as BreakerState, Take};
use crate::request::PartnerRequest;
use crate::signature::Secret;
use crate::switchboard::{Board, Stored};
use crate::time::Timestamp;

/// A port did not answer, or not with a yes or a no. Whether it acted is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{port} is unavailable: {why}")]
pub struct Unavailable {
    /// Which port.
    pub port: &'static str,
    /// Why, without values.
    pub why: String,
}

/// A write under a lease or an expectation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The row has moved on: another holder has it. Nothing was written.
    #[error("the row has moved on")]
    Fenced,
    /// Nobody knows whether it was written.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What an admission found.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// The event is new, and its row is written.
    New,
    /// The event was accepted before. This is its row.
    Duplicate(Box<Row>),
}

/// The intake's side of the ledger.
#[async_trait]
pub trait Admissions: Send + Sync {
    /// Writes a new event's row unless there is one already. One conditional write, no read.
    async fn admit(&self, row: &Row, now: Timestamp) -> Result<Admission, Unavailable>;
}

/// The processor's side of the ledger.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Claims an event. One conditional update, no read.
    async fn claim(&self, id: &EventId, claim: &Claim) -> Result<Result<Lease, Found>, Unavailable>;

    /// Records the lease's progress. The lease goes on.
    async fn record(&self, lease: &Lease) -> Result<(), WriteError>;

    /// Records how the lease ended.
    async fn close(&self, closed: &Closed) -> Result<(), WriteError>;
}

/// The ledger, to be looked at.
#[async_trait]
pub trait Rows: Send + Sync {
    /// The row of an event.
    async fn row(&self, id: &EventId) -> Result<Option<Row>, Unavailable>;
}

/// The replay's side of the ledger.
#[async_trait]
pub trait Records: Rows {
    /// The newest parked rows, newest first.
    async fn parked(&self, limit: usize) -> Result<Vec<Row>, Unavailable>;

    /// The oldest parked rows, oldest first: of those that were parked from `since` to `until`.
    async fn waiting(&self, since: Timestamp, until: Timestamp, limit: usize) -> Result<Vec<Row>, Unavailable>;

    /// Keeps a parked event's payload beside its row.
    async fn keep(&self, event: &Event, expires_at: i64) -> Result<(), Unavailable>;

    /// The payload of a parked event.
    async fn kept(&self, id: &EventId) -> Result<Option<Event>, Unavailable>;

    /// Forgets the payload of an event that is on its way again, unless it was parked anew meanwhile.
    async fn forget(&self, event: &Event) -> Result<(), Unavailable>;

    /// Writes `next` in the place of `seen`, or as a new row where none was seen, unless the row has
    /// moved on.
    async fn replace(&self, seen: Option<&Row>, next: &Row) -> Result<(), WriteError>;
}

/// How long a queue remembers that it was sent a message, by its deduplication id.
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_secs(300);

/// The queue of events.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends an event to its group.
    async fn send(&self, event: &Event) -> Result<(), Unavailable>;

    /// Sends many, in order. One answer for each: what the queue did not take is not sent.
    async fn send_all(&self, events: &[Event]) -> Vec<Result<(), Unavailable>>;
}

/// How many events there are on the queue, about: the queue counts as it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Those that wait for their turn.
    pub queued: usize,
    /// Those that somebody works on, or that wait for another try.
    pub in_flight: usize,
}

/// The queue of events, to look at.
#[async_trait]
pub trait Depths: Send + Sync {
    /// How much is on it now.
    async fn depth(&self) -> Result<Depth, Unavailable>;
}

/// The queue of events, from its consumer's side.
#[async_trait]
pub trait Visibility: Send + Sync {
    /// Makes a received message visible again after `delay`.
    async fn postpone(&self, receipt: &str, delay: Duration) -> Result<(), Unavailable>;
}

/// The queue of dead letters.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Sends a dead letter with its context.
    async fn bury(&self, letter: &DeadLetter) -> Result<(), Unavailable>;
}

/// A message that is given up on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// The message's body, as it was received.
    pub body: String,
    /// Its message group.
    pub group: String,
    /// What the queue deduplicates by.
    pub deduplication_id: String,
    /// Why it is dead.
    pub death: Death,
}

/// Secrets by their path below the prefix: `sources/<name>` or `integrations/<name>`.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// Every live secret at this path, as of some minutes ago. None at all is an empty list, not an error.
    async fn live(&self, path: &str) -> Result<Vec<Secret>, Unavailable>;

    /// Every live secret at this path as of now, for whoever was refused with the older ones. `None`
    /// says that it is too soon to ask again.
    async fn renewed(&self, path: &str) -> Result<Option<Vec<Secret>>, Unavailable>;
}

/// Where secrets are kept. Asked seldom: [`CachedSecrets`](crate::secrets::CachedSecrets) stands before it.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// Every secret at this path, now.
    async fn read(&self, path: &str) -> Result<Vec<Secret>, Unavailable>;
}

/// The partners' APIs.
#[async_trait]
pub trait Partners: Send + Sync {
    /// Sends one request and waits for its answer, no longer than the request says.
    async fn call(&self, request: PartnerRequest) -> Result<Answer, NoAnswer>;
}

/// The time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Chance.
pub trait Chance: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;

    /// A number drawn evenly from 0 to 1.
    fn unit(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What came of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// The tokens are taken, and this is the bucket now.
    Taken(Tat),
    /// The bucket is not as the draw supposes. This is how it is, if anybody knows it.
    Refused(Option<Tat>),
}

/// The buckets of tokens that all containers share.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Takes tokens from a bucket. One conditional write, no read.
    ///
    /// A write that lands twice takes twice: the bucket is emptier than it should be, never fuller.
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable>;
}

/// What came of taking a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is the taker's until its lease lapses.
    Yours,
    /// The slots are not as the take supposes. These are their leases, if anybody knows them.
    Refused(Option<Leases>),
}

/// The slots of partners that bear only so many calls at once.
#[async_trait]
pub trait Slots: Send + Sync {
    /// Takes a slot. One conditional write, no read. One that lands twice takes one slot.
    async fn take(&self, slots: &str, take: &Take) -> Result<Taken, Unavailable>;

    /// Gives a slot back. One conditional write; nothing happens if the holder has none any more.
    async fn give(&self, slots: &str, holder: &str) -> Result<(), Unavailable>;
}

/// What came of a breaker's replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// It is written.
    Written,
    /// The breaker has moved on. This is how it is, if anybody knows it.
    Refused(Option<BreakerState>),
}

/// The circuit breakers that all containers share.
#[async_trait]
pub trait Breakers: Send + Sync {
    /// The breaker as it was a moment ago.
    async fn read(&self, breaker: &str) -> Result<Option<BreakerState>, Unavailable>;

    /// Writes `next` in the place of the version that was seen, where zero is none. One conditional
    /// write, no read. One that lands twice is written.
    async fn swap(&self, breaker: &str, seen: u64, next: &BreakerState, now: Timestamp)
    -> Result<Swapped, Unavailable>;
}

/// The retries that all events of a contact share.
#[async_trait]
pub trait Budgets: Send + Sync {
    /// Takes one retry from the budget at this key, if there is one. Conditional writes, no read: one
    /// as a rule, and one more for each slot that somebody else took first.
    ///
    /// A write that lands twice takes two: fewer retries than there should be, never more.
    async fn spend(&self, key: &str, budget: &Budget, now: Timestamp) -> Result<Spending, Unavailable>;
}

/// Why a count was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// Somebody else has counted meanwhile. Nothing was written, and it may be tried again.
    #[error("somebody else has counted meanwhile")]
    Moved,
    /// The row was not written, and neither was a count.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The counters of frequency caps.
#[async_trait]
pub trait Caps: Send + Sync {
    /// A counter, now.
    async fn read(&self, key: &str) -> Result<Counter, Unavailable>;

    /// Records the lease's progress and the counts, all or nothing.
    async fn record(&self, lease: &Lease, counts: &[Count]) -> Result<(), CountError>;
}

/// The contacts.
#[async_trait]
pub trait Contacts: Send + Sync {
    /// Makes a contact or changes the fields that are named. `by` and `at` are the event's id and when
    /// it was received, so that the same upsert again changes nothing and gives the same answer. One
    /// write, no condition.
    async fn upsert(&self, upsert: &Upsert, by: &EventId, at: Timestamp) -> Result<Upserted, Unavailable>;

    /// What is known of a contact, now.
    async fn find(&self, id: &ContactId) -> Result<Option<Fields>, Unavailable>;
}

/// Where the switchboard is kept. Asked seldom: [`Switchboard`](crate::switchboard::Switchboard) stands
/// before it.
#[async_trait]
pub trait BoardStore: Send + Sync {
    /// The board, now.
    async fn read(&self) -> Result<Option<Stored>, Unavailable>;
}

/// The operator's side of the switchboard.
#[async_trait]
pub trait Boards: BoardStore {
    /// Writes a board in the place of the version that was seen, 0 where there was none, and says its
    /// version. Fenced if somebody else wrote another one meanwhile.
    async fn put(&self, board: &Board, seen: u64) -> Result<u64, WriteError>;
}

/// Where an IP address is.
pub trait Places: Send + Sync {
    /// The place of an address: `country`, `region`, `city` and `time_zone`, as far as they are known.
    fn find(&self, ip: IpAddr) -> Option<Value>;
}

/// Where batches of replays are kept.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// The document, now.
    async fn read(&self) -> Result<Option<Stored>, Unavailable>;

    /// Writes the document in the place of the version that was seen, 0 where there was none, and says its
    /// version. Fenced if somebody else wrote another one meanwhile.
    async fn put(&self, batches: &Batches, seen: u64) -> Result<u64, WriteError>;
}

/// What was applied last, of each entity.
#[async_trait]
pub trait Latest: Send + Sync {
    /// When the latest event that was applied was received.
    async fn applied(&self, key: &str) -> Result<Option<Timestamp>, Unavailable>;

    /// Writes down that an event was applied which was received then, unless a newer one was. It may be
    /// forgotten after `expires_at`, in seconds since the Unix epoch.
    async fn apply(&self, key: &str, received_at: Timestamp, expires_at: i64) -> Result<(), Unavailable>;
}

/// What drives a batch of replays: a message on the dead letter queue that comes back until it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// The batch's id.
    pub batch: String,
}

/// The lane's own messages.
#[async_trait]
pub trait Ticks: Send + Sync {
    /// Sends a tick.
    async fn send(&self, tick: &Tick) -> Result<(), Unavailable>;
}

/// Short waits.
#[async_trait]
pub trait Naps: Send + Sync {
    /// Waits for so long.
    async fn nap(&self, time: Duration);
}

/// What is counted.
pub trait Metrics: Send + Sync {
    /// Counts a fact. It never waits and never fails.
    fn put(&self, fact: &Fact<'_>);
}
