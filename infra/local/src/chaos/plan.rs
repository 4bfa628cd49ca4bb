//! The plan of a run: what is sent, what is disrupted, and when. All of it comes from the seed.
//!
//! The plan is the same for the same seed and flags. What it meets is not: which worker holds which
//! event when a disruption comes is up to the machine.

use std::time::Duration;

use serde_json::{Value, json};

use super::ChaosArgs;
use crate::seeded_random::SeededRandom;

/// The kinds of events, one flow each.
const KINDS: [&str; 6] = ["contact", "code", "mail", "order", "note", "profile"];

/// The partners that may be down.
const PARTNERS: [&str; 6] = ["crm", "codes", "mail", "erp", "chat", "profiles"];

/// Of a hundred events, how many are sent twice, and how many have a neighbour of this kind.
const DUPLICATES: u8 = 10;
const MALFORMED: u8 = 3;
const FORGED: u8 = 3;

/// How much later a duplicate may come.
const DUPLICATE_WITHIN: Duration = Duration::from_secs(15);

/// How many deliveries there are to each kill, and to each round of stops and outages.
const KILL_EVERY: usize = 30;
const ROUND: usize = 1000;

/// The plan of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChaosPlan {
    /// The deliveries of the senders, in order.
    pub(super) deliveries: Vec<PlannedDelivery>,
    /// The kills of function processes, in order.
    pub(super) kills: Vec<Timed<Kill>>,
    /// The stops of the emulator, in order.
    pub(super) stops: Vec<Timed<EmulatorStop>>,
    /// The outages of partners, in order.
    pub(super) outages: Vec<Timed<Outage>>,
}

/// A disruption, after how many deliveries it happens. Not a time: a slow machine is to have as many as a fast
/// one.
pub(super) type Timed<T> = (usize, T);

/// One delivery of a webhook, to be repeated until it is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedDelivery {
    /// When, from the start of the load.
    pub(crate) at: Duration,
    /// The sender's own id of the event.
    pub(crate) event_id: String,
    /// The flow that takes it.
    pub(crate) kind: &'static str,
    /// The contact, whose events are processed in order.
    pub(crate) contact: String,
    /// Whether the intake has to accept it.
    pub(crate) delivery_kind: DeliveryKind,
}

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryKind {
    /// A signed event, for the first time or once more.
    Genuine,
    /// Signed, and no event.
    Malformed,
    /// An event that is signed with a foreign secret.
    Forged,
}

/// The kill of a function's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    /// The function.
    pub(super) function: &'static str,
    /// Which process: this number modulo as many as there are.
    pub(super) which: usize,
}

/// A stop of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmulatorStop {
    /// The emulator is frozen for this long.
    Freeze(Duration),
    /// The emulator is ended, and started again after this long.
    Restart(Duration),
}

/// An outage of a partner, which answers the same to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outage {
    /// The partner.
    pub(super) integration: &'static str,
    /// The status that it answers with: it is down, or does not take our credentials.
    pub(super) status: u16,
    /// How long it lasts.
    pub(super) time: Duration,
}

impl PlannedDelivery {
    /// The body that is sent.
    pub(super) fn body(&self) -> Value {
        let mut data = json!({"event_id": self.event_id, "contact": self.contact});
        if self.delivery_kind == DeliveryKind::Malformed {
            data["contact"] = json!(17);
        }
        json!({"type": format!("chaos.{}", self.kind), "data": data})
    }
}

impl ChaosPlan {
    /// The plan of a seed.
    pub(super) fn new(flags: &ChaosArgs, seed: u64) -> Self {
        let random = SeededRandom::new(seed);
        let mut deliveries: Vec<PlannedDelivery> =
            (0..flags.events).flat_map(|n| deliveries(n, flags, random.of("event").nth(n))).collect();
        deliveries.sort_by_key(|delivery| delivery.at);
        let total = deliveries.len();
        let kills = if flags.no_kills { Vec::new() } else { kills(total, random.of("kill")) };
        let stops = if flags.no_stops { Vec::new() } else { stops(total, random.of("stop")) };
        Self { deliveries, kills, stops, outages: outages(total, random.of("outage")) }
    }
}

/// An event, and whatever comes along with it.
fn deliveries(n: usize, flags: &ChaosArgs, random: SeededRandom) -> Vec<PlannedDelivery> {
    let kind = KINDS[random.of("kind").below(KINDS.len() as u64) as usize];
    // About four events a contact: enough for groups to have heads and tails.
    let contact = format!("contact-{}", random.of("contact").below(flags.events as u64 / 4 + 1));
    let at = flags.length().mul_f64(n as f64 / flags.events as f64);
    let genuine =
        PlannedDelivery { at, event_id: format!("event{n}"), kind, contact, delivery_kind: DeliveryKind::Genuine };

    let bad = |delivery_kind, name: &str| PlannedDelivery {
        event_id: format!("{name}{n}"),
        delivery_kind,
        ..genuine.clone()
    };
    let later = at + DUPLICATE_WITHIN.mul_f64(random.of("later").unit()).min(flags.length() / 2);
    let more = [
        random.of("duplicate").happens(DUPLICATES).then(|| PlannedDelivery { at: later, ..genuine.clone() }),
        random.of("malformed").happens(MALFORMED).then(|| bad(DeliveryKind::Malformed, "malformed")),
        random.of("forged").happens(FORGED).then(|| bad(DeliveryKind::Forged, "forged")),
    ];
    let more: Vec<PlannedDelivery> = more.into_iter().flatten().collect();
    std::iter::once(genuine).chain(more).collect()
}

/// The kills. Most hit the processor, where most can be lost.
fn kills(total: usize, random: SeededRandom) -> Vec<Timed<Kill>> {
    let kill = |random: SeededRandom| {
        let function = match random.of("function").below(10) {
            0..6 => "processor",
            6..9 => "intake",
            _ => "replay",
        };
        let which = random.of("which").below(1 << 16) as usize;
        (random.of("at").below(total as u64) as usize, Kill { function, which })
    };
    let mut kills: Vec<_> = (0..total / KILL_EVERY).map(|n| kill(random.nth(n))).collect();
    kills.sort_by_key(|(at, _)| *at);
    kills
}

/// The stops of the emulator: frozen early in each round, restarted late.
fn stops(total: usize, random: SeededRandom) -> Vec<Timed<EmulatorStop>> {
    let stops = |(round, random): (Round, SeededRandom)| {
        let freeze = EmulatorStop::Freeze(seconds(2, 10, random.of("freeze")));
        let restart = EmulatorStop::Restart(seconds(0, 3, random.of("restart")));
        [(round.at(0.2, random), freeze), (round.at(0.7, random), restart)]
    };
    rounds(total, random).flat_map(stops).collect()
}

/// The outages: two in each round, between the stops.
fn outages(total: usize, random: SeededRandom) -> Vec<Timed<Outage>> {
    let outage = |random: SeededRandom, status| {
        let integration = PARTNERS[random.of("partner").below(PARTNERS.len() as u64) as usize];
        Outage { integration, status, time: seconds(2, 6, random.of("time")) }
    };
    let outages = |(round, random): (Round, SeededRandom)| {
        let rejected = random.of("credentials");
        [(round.at(0.3, rejected), outage(rejected, 401)), (round.at(0.5, random), outage(random, 503))]
    };
    rounds(total, random).flat_map(outages).collect()
}

/// A part of the load.
struct Round {
    begins: usize,
    length: usize,
}

impl Round {
    /// A place in the round: this share of it, and up to a tenth more.
    fn at(&self, share: f64, random: SeededRandom) -> usize {
        self.begins + (self.length as f64 * (share + random.of("at").unit() / 10.0)) as usize
    }
}

/// The rounds of a load, each with its own random numbers. A shorter load is one short round.
fn rounds(total: usize, random: SeededRandom) -> impl Iterator<Item = (Round, SeededRandom)> {
    let count = (total / ROUND).max(1);
    let length = total / count;
    (0..count).map(move |n| (Round { begins: n * length, length }, random.nth(n)))
}

fn seconds(from: u64, to: u64, random: SeededRandom) -> Duration {
    Duration::from_millis(from * 1000 + random.below((to - from) * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> ChaosArgs {
        ChaosArgs { events: 2000, minutes: 1.5, ..ChaosArgs::default() }
    }

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(ChaosPlan::new(&flags(), 7), ChaosPlan::new(&flags(), 7));
        assert_ne!(ChaosPlan::new(&flags(), 7), ChaosPlan::new(&flags(), 8));
    }

    #[test]
    fn every_event_is_sent_and_some_twice_among_what_is_no_event() {
        let plan = ChaosPlan::new(&flags(), 7);
        let of = |delivery_kind| plan.deliveries.iter().filter(move |delivery| delivery.delivery_kind == delivery_kind);
        let ids: std::collections::BTreeSet<&str> =
            of(DeliveryKind::Genuine).map(|delivery| delivery.event_id.as_str()).collect();
        assert_eq!(ids.len(), 2000);
        assert!(of(DeliveryKind::Genuine).count() > 2100);
        assert!(of(DeliveryKind::Forged).count() > 20 && of(DeliveryKind::Malformed).count() > 20);
        assert!(plan.deliveries.is_sorted_by_key(|delivery| delivery.at));
    }

    #[test]
    fn flags_turn_disruptions_off() {
        let quiet = ChaosPlan::new(&ChaosArgs { no_kills: true, no_stops: true, ..flags() }, 7);
        assert_eq!((quiet.kills.len(), quiet.stops.len(), quiet.outages.len()), (0, 0, 4));
        let all = ChaosPlan::new(&flags(), 7);
        assert_eq!((all.stops.len(), all.outages.len()), (4, 4));
        assert_eq!(all.kills.len(), all.deliveries.len() / KILL_EVERY);
        assert!(all.kills.is_sorted_by_key(|(at, _)| *at) && all.stops.is_sorted_by_key(|(at, _)| *at));
    }
}
