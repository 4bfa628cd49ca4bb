//! A fleet of containers under one limit, in virtual time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::future::join_all;
use shared::adapters::aws::DynamoLimits;
use shared::base::errors::Unavailable;
use shared::base::machine::Chance;
use shared::base::time::Timestamp;
use shared::limits::rates::{Decision, Draw, Drawn, Limiter, Limits, Rate};
use shared::model::{ModelChance, ModelLimits};
use tokio::sync::Mutex;

use crate::fixtures::{NOW, aws};

/// How exactly a limit must hold.
const TOLERANCE: f64 = 0.1;

/// What an event may cost at full rate.
const WRITES_AN_EVENT: f64 = 0.2;

fn rate(count: u32, secs: u64, burst: u32) -> Rate {
    Rate::new(count, Duration::from_secs(secs), burst).expect("a good rate")
}

fn at(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

/// Tokens in this time.
fn worth(rate: &Rate, time: Duration) -> f64 {
    f64::from(rate.count()) * time.as_secs_f64() / rate.per().as_secs_f64()
}

/// Counts the writes, refused ones included: each is charged.
#[derive(Clone)]
struct Counted<L> {
    limits: L,
    writes: Arc<AtomicUsize>,
}

#[async_trait]
impl<L: Limits> Limits for Counted<L> {
    async fn draw(&self, bucket: &str, draw: &Draw) -> Result<Drawn, Unavailable> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.limits.draw(bucket, draw).await
    }
}

/// Containers with one table between them, and senders that come to any of them.
struct Fleet {
    /// Each is busy with one event at a time, as Lambda has it.
    containers: Vec<Mutex<Limiter>>,
    writes: Arc<AtomicUsize>,
    key: String,
    rate: Rate,
    chance: ModelChance,
}

impl Fleet {
    fn over<L: Limits + Clone + 'static>(limits: L, containers: usize, rate: Rate) -> Self {
        let writes = Arc::<AtomicUsize>::default();
        let counted = Counted { limits, writes: Arc::clone(&writes) };
        let containers = (0..containers).map(|_| Mutex::new(Limiter::new(Box::new(counted.clone())))).collect();
        let unique = UNIX_EPOCH.elapsed().expect("after 1970").as_nanos();
        Fleet { containers, writes, key: format!("fleet-{unique}"), rate, chance: ModelChance::seeded(7) }
    }

    fn in_memory(containers: usize, rate: Rate) -> Self {
        Self::over(ModelLimits::default(), containers, rate)
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    async fn admit(&self, container: usize, now: Timestamp) -> Decision {
        self.containers[container].lock().await.admit(&self.key, &self.rate, now).await.expect("the table answers")
    }

    /// Events at random moments of these seconds, `load` times as many as the rate allows, each to a
    /// random container; those of the same 20 ms at once.
    async fn under(&self, load: f64, seconds: Range<u64>) -> Run {
        let time = Duration::from_secs(seconds.end - seconds.start);
        let mut run = Run { rate: self.rate, time, offered: 0, admitted: Vec::new(), writes: 0 };
        let writes_before = self.writes();
        for millis in (seconds.start * 1000..seconds.end * 1000).step_by(20) {
            let events = self.arrivals(load * worth(&self.rate, Duration::from_millis(20)));
            let container = || usize::try_from(self.chance.bits()).expect("64 bits") % self.containers.len();
            let decisions = join_all((0..events).map(|_| self.admit(container(), at(millis)))).await;
            let admitted = decisions.iter().filter(|decision| matches!(decision, Decision::Admitted { .. }));
            run.offered += events;
            run.admitted.extend(admitted.map(|_| millis));
        }
        run.writes = self.writes() - writes_before;
        run
    }

    /// A Poisson draw around this mean.
    fn arrivals(&self, mean: f64) -> usize {
        let (limit, mut product, mut events) = ((-mean).exp(), self.chance.unit(), 0);
        while product > limit {
            product *= self.chance.unit();
            events += 1;
        }
        events
    }
}

/// What came of it.
#[derive(Debug)]
struct Run {
    rate: Rate,
    time: Duration,
    offered: usize,
    admitted: Vec<u64>,
    writes: usize,
}

impl Run {
    /// What was admitted of what is allowed in that time.
    fn of_the_limit(&self) -> f64 {
        self.admitted.len() as f64 / (f64::from(self.rate.burst()) + worth(&self.rate, self.time))
    }

    /// The same in the fullest window of this length.
    fn of_the_limit_in_any(&self, window: Duration) -> f64 {
        self.fullest(window) as f64 / (f64::from(self.rate.burst()) + worth(&self.rate, window))
    }

    /// How many were admitted in the fullest window of this length.
    fn fullest(&self, window: Duration) -> usize {
        let ends = |start: u64| start + u64::try_from(window.as_millis()).expect("a short time");
        let starts = self.admitted.iter().enumerate();
        let most = starts.map(|(first, start)| self.admitted[first..].partition_point(|m| *m <= ends(*start)));
        most.max().unwrap_or(0)
    }

    fn writes_an_event(&self) -> f64 {
        self.writes as f64 / self.admitted.len() as f64
    }

    /// The limit holds from below and above, over the whole time and in every window, and the writes
    /// are amortised over those that are admitted: those that are denied come on top for free.
    fn check(&self, what: &str) {
        let whole = self.of_the_limit();
        let fullest = [1, 10].map(|secs| self.of_the_limit_in_any(Duration::from_secs(secs)));
        let writes = self.writes_an_event();
        println!("{what}: {whole:.3} of the limit, {fullest:.3?} in 1 s and 10 s, {writes:.3} writes an event");
        assert!((whole - 1.0).abs() <= TOLERANCE, "{what}: {whole:.3} of the limit");
        assert!(fullest.iter().all(|window| *window <= 1.0 + TOLERANCE), "{what}: {fullest:.3?} of the limit");
        assert!(writes < WRITES_AN_EVENT, "{what}: {writes:.3} writes an event");
    }
}

#[tokio::test]
async fn the_limit_holds_and_writes_are_few_over_many_containers() {
    for (rate, containers) in [(rate(50, 1, 50), 4), (rate(500, 1, 500), 10), (rate(600, 60, 50), 2)] {
        for load in [1.05, 1.2, 3.0, 20.0] {
            let run = Fleet::in_memory(containers, rate).under(load, 0..60).await;
            run.check(&format!("{rate}, {containers} containers, load {load}"));
        }
    }
}

#[tokio::test]
#[ignore = "needs the local cloud: make test"]
async fn the_limit_holds_and_writes_are_few_on_the_emulator() {
    let table = std::env::var("LEDGERLINE_LIMITS_TABLE").expect("make test names the table");
    let limits = DynamoLimits::new(&aws().await, table);
    for load in [1.2, 3.0] {
        let run = Fleet::over(limits.clone(), 4, rate(50, 1, 50)).under(load, 0..30).await;
        run.check(&format!("on the emulator, load {load}"));
    }
}

/// Seconds at a pace that makes every container lease, then a flood that spends it all at once.
#[tokio::test]
async fn leases_that_are_saved_up_exceed_the_limit_by_their_life_at_most() {
    let rate = rate(50, 1, 50);
    let fleet = Fleet::in_memory(8, rate);
    for second in 0..60 {
        let calm = fleet.under(0.9, second * 4..second * 4 + 3).await;
        let flood = fleet.under(20.0, second * 4 + 3..second * 4 + 4).await;
        assert!(calm.offered > 0 && flood.offered > 0);
        let most = f64::from(rate.burst()) + worth(&rate, Duration::from_secs(1) + rate.lease_life());
        assert!((flood.admitted.len() as f64) <= most, "{} of {most}", flood.admitted.len());
    }
}

#[tokio::test]
async fn below_the_limit_nobody_is_denied() {
    for rate in [rate(50, 1, 50), rate(600, 60, 50), rate(60, 60, 60), rate(5, 1, 2), rate(7, 60, 1)] {
        let fleet = Fleet::in_memory(1, rate);
        let interval = rate.per().as_micros().div_ceil(u128::from(rate.count()) * 1000);
        let interval = u64::try_from(interval).expect("a short time");
        for n in 0..600 {
            let decision = fleet.admit(0, at(n * interval)).await;
            assert!(matches!(decision, Decision::Admitted { .. }), "{rate}, event {n}: {decision:?}");
        }
    }
}

#[tokio::test]
async fn well_below_the_limit_nobody_is_denied_in_any_container() {
    for containers in [1, 4, 10] {
        let run = Fleet::in_memory(containers, rate(50, 1, 50)).under(0.7, 0..60).await;
        assert_eq!(run.admitted.len(), run.offered, "{containers} containers");
    }
}

#[tokio::test]
async fn a_rare_event_costs_one_write_and_no_token_too_many() {
    let fleet = Fleet::in_memory(3, rate(60, 60, 60));
    for n in 0..100 {
        let decision = fleet.admit(n % 3, at(n as u64 * 3000)).await;
        assert!(matches!(decision, Decision::Admitted { remaining: 59, .. }), "{decision:?}");
    }
    assert_eq!(fleet.writes(), 100);
}

#[tokio::test]
async fn a_flood_costs_no_writes_once_the_bucket_is_empty() {
    let fleet = Fleet::in_memory(4, rate(60, 60, 60));
    let mut admitted = 0;
    for n in 0..100_000 {
        let decision = fleet.admit(n % 4, at(n as u64 / 1000)).await;
        admitted += usize::from(matches!(decision, Decision::Admitted { .. }));
    }
    assert_eq!(admitted, 60);
    assert!(fleet.writes() <= 60, "{} writes for 100,000 events", fleet.writes());
}

#[tokio::test]
async fn after_a_flood_a_sender_that_keeps_to_its_rate_is_soon_admitted_again() {
    for rate in [rate(50, 1, 50), rate(600, 60, 50), rate(60, 60, 60)] {
        let fleet = Fleet::in_memory(4, rate);
        fleet.under(20.0, 0..10).await;
        let interval = u64::try_from(rate.per().as_millis()).expect("a short time") * 2 / u64::from(rate.count());
        for n in 0..40 {
            let millis = 15_000 + n * interval;
            let decision = fleet.admit(n as usize % 4, at(millis)).await;
            assert!(matches!(decision, Decision::Admitted { .. }), "{rate}, {millis} ms: {decision:?}");
        }
    }
}

#[tokio::test]
async fn whoever_waits_as_told_is_admitted() {
    let fleet = Fleet::in_memory(1, rate(50, 1, 50));
    let mut now = NOW;
    for _ in 0..50 {
        while let Decision::Admitted { .. } = fleet.admit(0, now).await {}
        let Decision::Throttled { retry_after, .. } = fleet.admit(0, now).await else { panic!("the bucket is empty") };
        now = now + retry_after;
        assert!(matches!(fleet.admit(0, now).await, Decision::Admitted { .. }), "after {retry_after:?}");
    }
}

#[tokio::test]
async fn a_table_that_is_down_is_left_alone_for_a_while() {
    let table = ModelLimits::default();
    let limiter = Limiter::new(Box::new(table.clone()));
    let rate = rate(50, 1, 50);
    let ask = |key: &'static str, millis| {
        let (limiter, rate) = (&limiter, &rate);
        async move { limiter.admit(key, rate, at(millis)).await.is_ok() }
    };
    for _ in 0..3 {
        assert!(ask("leased", 0).await);
    }
    table.down(true);
    assert!(!ask("one", 10).await);
    let writes = table.writes();
    assert!(!ask("one", 20).await && !ask("other", 5009).await, "no bucket is asked");
    assert_eq!(table.writes(), writes);
    table.down(false);
    assert!(ask("one", 5010).await && ask("other", 5010).await);
}
