//! A partner that is down: it is left alone, its events wait, and none dies of it, however few they are.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::base::id::EventId;
use shared::base::machine::Clock as _;
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use shared::ledger::queue::Depths;
use shared::ledger::{Reason, Row, State};
use shared::limits::pressure::{Breaker, Gate};
use shared::model::{ModelChance, Script};

use super::world::{World, flows_with};
use crate::fixtures::{files, lead_of};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// So many events, each of another person.
const NOBODY_TWICE: usize = usize::MAX;

/// A world with some containers that take turns, and one event each so many seconds.
struct Life {
    world: World,
    containers: Vec<Gate>,
    every: Duration,
    people: usize,
    posted: usize,
    lived: Duration,
    most_in_flight: usize,
}

impl Life {
    fn of(flows: Flows, every: Duration, people: usize) -> Self {
        let mut world = World::with(flows);
        world.limit_queue(500);
        let gate = |seed| {
            let (limits, table) = (Box::new(world.limits.clone()), world.pressure.clone());
            Gate::new(limits, Box::new(table.clone()), Box::new(table), Box::new(ModelChance::seeded(seed)))
        };
        let containers = [101, 102].map(gate).into();
        Life { world, containers, every, people, posted: 0, lived: Duration::ZERO, most_in_flight: 0 }
    }

    /// Lets so much time pass, second by second. Events are woken each minute.
    async fn live(&mut self, time: Duration) {
        let until = self.lived + time;
        while self.lived < until {
            if self.lived.as_secs().is_multiple_of(self.every.as_secs()) {
                self.post().await;
            }
            if self.lived.as_secs().is_multiple_of(60) {
                self.world.wake().await;
            }
            while self.world.events.next_receipt() == Some(self.world.clock.now()) {
                self.containers.rotate_left(1);
                std::mem::swap(&mut self.world.processor.gate, &mut self.containers[0]);
                self.world.poll().await;
            }
            let depth = Depths::depth(&self.world.events).await.expect("the model answers");
            self.most_in_flight = self.most_in_flight.max(depth.in_flight);
            self.world.clock.advance(SECOND);
            self.lived += SECOND;
        }
    }

    async fn post(&mut self) -> EventId {
        let person = self.posted % self.people;
        let lead = lead_of(&format!("evt_{}", self.posted), &format!("{person}@example.com"));
        self.posted += 1;
        self.world.post(&lead).await.expect("a good lead").id
    }

    /// The moments of all calls so far.
    fn calls(&self) -> Vec<Timestamp> {
        self.world.partners.calls().into_iter().map(|(at, _)| at).collect()
    }

    /// The events of each person are done in the order in which they came: the last call of each is the one that was
    /// answered.
    fn assert_in_order(&self) {
        let mut last = BTreeMap::new();
        for (place, (_, call)) in self.world.partners.calls().into_iter().enumerate() {
            let number: usize = call.path.rsplit('_').next().and_then(|n| n.parse().ok()).expect("a number");
            last.insert((number % self.people, number), place);
        }
        let places: Vec<((usize, usize), usize)> = last.into_iter().collect();
        let overtaken = places.windows(2).find(|two| two[0].0.0 == two[1].0.0 && two[0].1 > two[1].1);
        assert_eq!(overtaken, None, "a person's event overtook another");
    }

    /// The calls from this one on came no faster than the partner bears.
    fn assert_within_rate(&self, from: usize) {
        let calls = self.calls().split_off(from);
        let Some(rate) = self.world.processor.flows.integration("crm").and_then(|crm| crm.pressure.rate) else {
            return;
        };
        let a_second = f64::from(rate.count()) / rate.per().as_secs_f64();
        let most = f64::from(rate.burst()) + a_second * (MINUTE + rate.lease_life()).as_secs_f64();
        for (first, at) in calls.iter().enumerate() {
            let within = calls[first..].iter().take_while(|later| later.since(*at) <= MINUTE).count();
            assert!(within as f64 <= most, "{within} calls within a minute, {most} allowed");
        }
    }

    /// How long the slowest of the events took that were received from this moment on.
    fn slowest_since(&self, from: Timestamp) -> Duration {
        let rows = self.world.ledger.rows().into_iter().filter(|row| row.received_at >= from);
        let took = |row: Row| row.history.last().map(|last| last.at.since(row.received_at)).unwrap_or_default();
        rows.map(took).max().unwrap_or_default()
    }

    fn assert_nobody_died(&self) {
        let rows = self.world.ledger.rows();
        let died: Vec<&Row> = rows.iter().filter(|row| row.state == State::Dead).collect();
        assert!(died.is_empty(), "{} died: {:?}", died.len(), died[0].history);
    }

    /// The events that are not done, and came more than a minute ago.
    fn behind(&self) -> usize {
        let now = self.world.clock.now();
        let late = |row: &&Row| row.state != State::Succeeded && now.since(row.received_at) > MINUTE;
        self.world.ledger.rows().iter().filter(late).count()
    }
}

/// The plain flow; its partner bears two calls a second.
fn flows() -> Flows {
    let mut files = files();
    files[1].text = files[1].text.replace("  timeout: 3s", "  rate: {limit: 2/s, burst: 10}\n  timeout: 3s");
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The partner is down for six hours, from the middle of its work on. Returns the moments of the calls while it was.
async fn six_hours_down(life: &mut Life) -> Vec<Timestamp> {
    six_hours_with(life, Script::Status(503)).await
}

/// The same of a partner that is down in this way.
async fn six_hours_with(life: &mut Life, down: Script) -> Vec<Timestamp> {
    life.live(7 * MINUTE + 31 * SECOND).await;
    life.assert_nobody_died();
    let before = life.calls().len();
    life.world.partners.fail_with(Some(down));
    life.live(6 * HOUR).await;
    life.world.partners.fail_with(None);
    let back = life.calls().len();
    let calls = life.calls()[before..back].to_vec();
    life.live(HOUR).await;
    life.assert_nobody_died();
    life.assert_in_order();
    life.assert_within_rate(back);
    assert_eq!(life.behind(), 0, "an hour after its return, with one each {:?}", life.every);
    assert!(life.most_in_flight <= 250, "{} were in flight at once", life.most_in_flight);
    calls
}

/// What the design says: once the breaker is open, one probe each `open_for`, whoever makes it.
fn assert_left_alone(calls: &[Timestamp], before_it_is_known: usize) {
    let probes = calls.get(before_it_is_known..).unwrap_or_default();
    let open_for = Breaker::STANDARD.open_for;
    let close = probes.windows(2).filter(|two| two[1].since(two[0]) < open_for).count();
    assert_eq!(close, 0, "of {} probes, two are closer than {open_for:?}", probes.len());
    let most = before_it_is_known + 6 * 120;
    assert!(calls.len() <= most, "{} calls of a partner that is down, {most} allowed", calls.len());
}

#[tokio::test]
async fn a_partner_is_down_for_six_hours_and_nothing_dies_of_it() {
    for people in [50, NOBODY_TWICE] {
        let mut life = Life::of(flows(), 10 * SECOND, people);
        let calls = six_hours_down(&mut life).await;
        // At six events a minute, the tenth failure of a minute opens the breaker, or the third of a silent minute.
        assert_left_alone(&calls, 20);
    }
}

/// While events that waited go on, those that come now are done as if there were none.
#[tokio::test]
async fn new_events_are_not_starved_by_what_waited_for_hours() {
    let mut life = Life::of(flows(), 4 * SECOND, NOBODY_TWICE);
    life.live(5 * MINUTE).await;
    life.world.partners.set_down(true);
    life.live(2 * HOUR).await;
    life.world.partners.set_down(false);
    // It is known that the partner is back.
    life.live(2 * MINUTE).await;
    let (from, backlog) = (life.world.clock.now(), life.behind());
    assert!(backlog > 1000, "{backlog} wait");
    life.live(10 * MINUTE).await;
    assert!(life.behind() > 200, "they still go on");
    life.live(50 * MINUTE).await;
    life.assert_nobody_died();
    let slowest = life.slowest_since(from);
    assert!(slowest <= MINUTE, "an event that came during the drain took {slowest:?}");
    assert_eq!(life.behind(), 0);
}

/// A partner that never answers, or takes no connection, is as down as one that answers with errors.
#[tokio::test]
async fn a_partner_that_hangs_or_refuses_connections_for_hours_kills_nothing() {
    for down in [Script::Hang, Script::Refused] {
        let mut life = Life::of(flows(), 10 * SECOND, 50);
        let calls = six_hours_with(&mut life, down.clone()).await;
        assert!(calls.len() <= 20 + 6 * 120, "{down:?}: {} calls", calls.len());
    }
}

#[tokio::test]
async fn a_partner_that_is_called_once_a_minute_is_known_to_be_down_as_well() {
    let mut life = Life::of(flows(), MINUTE, NOBODY_TWICE);
    let calls = six_hours_down(&mut life).await;
    assert_left_alone(&calls, 10);
}

#[tokio::test]
async fn a_partner_that_is_called_once_an_hour_is_known_to_be_down_as_well() {
    let mut life = Life::of(flows(), HOUR, NOBODY_TWICE);
    let calls = six_hours_down(&mut life).await;
    // The first event comes back more and more seldom. It is known when the second one fails, too, an hour later.
    assert_left_alone(&calls, 40);
}

/// No second event shows whether the partner is down, and it is all that there is to lose.
#[tokio::test]
async fn one_event_outlives_an_outage_of_hours_alone() {
    let slow = |yaml: String| {
        yaml.replace("base: 2s", "base: 2m").replace("max_delay: 120s", "max_delay: 8m").replace("ttl: 24h", "ttl: 48h")
    };
    for (base, max_attempts) in [("2m", 4), ("2s", 3), ("2s", 1)] {
        let yaml = |yaml: String| {
            let yaml = yaml.replace("max_attempts: 3", &format!("max_attempts: {max_attempts}"));
            if base == "2m" { slow(yaml) } else { yaml }
        };
        let mut life = Life::of(flows_with(yaml), 48 * HOUR, 1);
        life.world.partners.set_down(true);
        life.live(12 * HOUR).await;
        let calls = life.calls().len();
        assert!((20..=110).contains(&calls), "{calls} calls, with {max_attempts} attempts");
        life.assert_nobody_died();
        life.world.partners.set_down(false);
        life.live(20 * MINUTE).await;
        assert_eq!(life.behind(), 0, "with {max_attempts} attempts");
    }
}

/// What fails while others are answered is what the partner does not take.
#[tokio::test]
async fn an_event_that_the_partner_does_not_take_dies_when_others_are_answered() {
    for (every, most) in [(SECOND, 2 * MINUTE), (MINUTE, 10 * MINUTE), (HOUR + SECOND, 2 * HOUR)] {
        let mut life = Life::of(flows(), every, NOBODY_TWICE);
        life.world.partners.never_take("/leads/evt_0");
        life.live(most).await;
        let rows = life.world.ledger.rows();
        let died: Vec<&Row> = rows.iter().filter(|row| row.state == State::Dead).collect();
        let reasons: Vec<Reason> = died.iter().filter_map(|row| Some(row.death.as_ref()?.reason)).collect();
        // Its partner may have acted, as far as anybody knows: a 503 does not say.
        let behind: Vec<&Row> = rows.iter().filter(|row| row.state != State::Succeeded).collect();
        assert_eq!(reasons, [Reason::UnknownOutcome], "with one each {every:?}: {:?}", behind[0].history);
        life.live(2 * MINUTE).await;
        assert_eq!(life.behind(), 1, "others go on, with one each {every:?}");
    }
}

/// Attempts that an outage used up before it was known are given back: the event has all of them when it is over.
#[tokio::test]
async fn an_outage_that_comes_and_goes_kills_nothing() {
    let mut life = Life::of(flows(), 20 * SECOND, NOBODY_TWICE);
    for _ in 0..12 {
        life.world.partners.set_down(true);
        life.live(10 * MINUTE).await;
        life.world.partners.set_down(false);
        life.live(70 * SECOND).await;
    }
    life.assert_nobody_died();
    life.live(HOUR).await;
    assert_eq!(life.behind(), 0);
}

/// A contact's budget is for retries of what a partner answers, too.
#[tokio::test]
async fn an_outage_does_not_exhaust_a_contact_s_budget() {
    let budget = "max_attempts: 3\n  budget_per_contact: {count: 1, window: 1h}";
    let mut life = Life::of(flows_with(|yaml| yaml.replace("max_attempts: 3", budget)), 10 * MINUTE, 1);
    six_hours_down(&mut life).await;
}

/// An effect that was renamed is known to the ledger by its old name, and is spared under it.
#[tokio::test]
async fn the_attempts_of_a_renamed_effect_are_spared_too() {
    let renamed = |yaml: String| yaml.replace("- id: crm", "- id: contact\n    was: [crm]");
    let mut life = Life::of(flows_with(renamed), 48 * HOUR, 1);
    life.world.partners.set_down(true);
    life.live(HOUR).await;
    life.assert_nobody_died();
    let row = life.world.ledger.rows().remove(0);
    assert!(row.effects["crm"].spared > 3 && row.effects["crm"].attempts < 3, "{:?}", row.effects);
}

/// The plain flow under another guarantee.
fn flows_under(guarantee: &str) -> Flows {
    flows_with(|yaml| yaml.replace("guarantee: native", guarantee))
}

const LOOKUP: &str =
    "guarantee: lookup\n    lookup: {after: 5s, request: {path: '/found/{{ event.data.event_id }}'}, found: /none}";

/// Whatever a partner guarantees, and however it is down, at whatever rate it is called.
#[tokio::test]
async fn nothing_dies_of_an_outage_whatever_the_guarantee_and_however_the_partner_is_down() {
    let refused = Script::RetryAfter(429, "3600");
    for (guarantee, down, every) in [
        ("guarantee: native", Script::Status(429), MINUTE),
        ("guarantee: idempotent", Script::Status(500), HOUR),
        ("guarantee: idempotent", Script::Hang, MINUTE),
        (LOOKUP, Script::Status(503), MINUTE),
        (LOOKUP, Script::Hang, HOUR),
        ("guarantee: none", Script::Refused, MINUTE),
        ("guarantee: none", Script::Refused, HOUR),
        ("guarantee: none", refused, HOUR),
    ] {
        let mut life = Life::of(flows_under(guarantee), every, NOBODY_TWICE);
        life.live(7 * MINUTE + 31 * SECOND).await;
        life.world.partners.fail_with(Some(down.clone()));
        life.live(6 * HOUR).await;
        life.world.partners.fail_with(None);
        life.live(HOUR + 2 * MINUTE).await;
        let world = &life.world;
        let open: Vec<Row> = world.ledger.rows().into_iter().filter(|row| row.state == State::Dead).collect();
        assert!(open.is_empty(), "{guarantee} {down:?} {every:?}: {} died: {:?}", open.len(), open[0].history);
        assert_eq!(life.behind(), 0, "{guarantee} {down:?} {every:?}");
    }
}

/// Where nobody can be asked, each call that is in doubt costs its event, a probe's, too. So the partner is probed more
/// and more seldom, and all others are done when it is back.
#[tokio::test]
async fn an_outage_costs_few_events_where_nobody_can_be_asked() {
    for down in [Script::Status(503), Script::Hang] {
        let mut life = Life::of(flows_under("guarantee: none"), 10 * SECOND, 50);
        life.live(7 * MINUTE + 31 * SECOND).await;
        life.world.partners.fail_with(Some(down.clone()));
        life.live(6 * HOUR).await;
        life.world.partners.fail_with(None);
        life.live(HOUR).await;
        let rows = life.world.ledger.rows();
        let (dead, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.state == State::Dead);
        let reasons = dead.iter().filter_map(|row| Some(row.death.as_ref()?.reason));
        assert!(reasons.eq(std::iter::repeat_n(Reason::UnknownOutcome, dead.len())));
        // Until it is known, and then 5 probes in the first quarter of an hour and one in each of the others.
        assert!((6..=20 + 5 + 24).contains(&dead.len()), "{down:?}: {} of {}", dead.len(), rows.len());
        assert_eq!((life.behind(), others.len() > 2000), (dead.len(), true), "{down:?}");
        life.assert_in_order();
    }
}

/// What a partner has no room for leaves the queue as well: an event that waits on it is in flight, and the queue bears
/// only so many, of all flows.
#[tokio::test]
async fn a_backlog_at_a_partner_that_works_holds_no_other_flow_up() {
    let mut files = files();
    files[1].text = files[1].text.replace("  timeout: 3s", "  rate: {limit: 1/s, burst: 2}\n  timeout: 3s");
    files[1].text += "mail: {base_url: https://mail.example.com, auth: none, timeout: 3s}\n";
    let mail = files[2].text.replace("name: lead-routing", "name: mail").replace("lead.created", "lead.mail");
    let mail = mail.replace("integration: crm", "integration: mail");
    files.push(File { path: "flows/mail.yaml".into(), text: mail });
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let mut life = Life::of(flows, 48 * HOUR, NOBODY_TWICE);
    for second in 0..1000 {
        for _ in 0..2 {
            life.post().await;
        }
        if second % 20 == 0 {
            let mut lead = lead_of(&format!("mail_{second}"), &format!("mail{second}@example.com"));
            lead["type"] = "lead.mail".into();
            life.world.post(&lead).await.expect("a good lead");
        }
        life.live(SECOND).await;
    }
    assert!(life.behind() > 800, "{} wait", life.behind());
    assert!(life.most_in_flight <= 250, "{} were in flight at once", life.most_in_flight);
    let rows = life.world.ledger.rows();
    for row in rows.iter().filter(|row| row.flow == "mail") {
        let took = row.history.last().map(|last| last.at.since(row.received_at)).unwrap_or_default();
        assert_eq!(row.state, State::Succeeded, "{:?}", row.history);
        assert!(took <= 2 * SECOND, "an event of the other flow took {took:?}");
    }
    life.live(HOUR / 2).await;
    assert_eq!(life.behind(), 0);
    life.assert_nobody_died();
}

/// An answer that there is no such thing is an answer.
#[tokio::test]
async fn lookups_that_find_nothing_do_not_count_as_an_outage() {
    let enrich = "enrich:\n  - id: company\n    integration: crm\n    path: /companies/{{ event.data.event_id }}\n    \
        result: {name: /name}\n    on_error: continue\n\neffects:";
    let mut life = Life::of(flows_with(|yaml| yaml.replace("effects:", enrich)), MINUTE, NOBODY_TWICE);
    for _ in 0..10 {
        life.world.partners.script([shared::model::Script::Status(404), shared::model::Script::Status(200)]);
    }
    life.live(9 * MINUTE).await;
    assert_eq!(life.behind(), 0);
    assert_eq!(life.world.metrics.sum("BreakerOpened{crm}"), 0);
}
