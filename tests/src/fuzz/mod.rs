//! Real payloads, spoiled at random, against what must hold whatever is sent.
//!
//! Every target is an ordinary test, which tries the same inputs each time: a change that has nothing to do
//! with it does not fail for luck. `make fuzz` looks for other inputs, guided by coverage, for as long as one
//! likes; so does bolero at random, where `BOLERO_RANDOM_TEST_TIME_MS` gives it time. What was found once stands
//! as a named test below its target.

mod envelopes;
mod flows;
mod gateway;
mod payload;
mod retry_after;
mod signatures;
mod templates;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, RefUnwindSafe};

use bolero::generator::bolero_generator::driver::{ByteSliceDriver, Options};
use bolero::{ByteSliceGenerator, DefaultEngine, TestTarget, TypeGenerator};
use shared::base::machine::Chance;
use shared::flows::Flows;
use shared::model::ModelChance;

use crate::fixtures::files;
use crate::memory::World;

/// How many inputs a target tries as a test.
const INPUTS: u64 = 2_000;

/// How many bytes of chance an input is made from, as bolero has it.
const BYTES: usize = 4096;

/// Holds what `holds` says against inputs: the same in every test, others where somebody looks for them.
fn each<T: TypeGenerator + Debug + 'static>(
    target: TestTarget<ByteSliceGenerator, DefaultEngine, bolero::BorrowedInput>,
    holds: impl Fn(&T) + RefUnwindSafe,
) {
    if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("BOLERO_")) {
        target.with_type::<T>().for_each(holds);
        return;
    }
    for seed in 0..INPUTS {
        let chance = ModelChance::seeded(seed);
        let bytes: Vec<u8> = (0..BYTES / 8).flat_map(|_| chance.bits().to_le_bytes()).collect();
        if let Some(input) = T::generate(&mut ByteSliceDriver::new(&bytes, &Options::default())) {
            let _told = Told(&input);
            holds(&input);
        }
    }
}

/// Shows the input that a target fails on.
struct Told<'i, T: Debug>(&'i T);

impl<T: Debug> Drop for Told<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("fails on {:#?}", self.0);
        }
    }
}

/// A system that a target sends one input after another to.
struct Arena {
    world: World,
    runtime: tokio::runtime::Runtime,
}

impl Arena {
    /// A target stops at its first failure, so nobody looks at what a panic left behind.
    fn new() -> AssertUnwindSafe<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        AssertUnwindSafe(Self { world: World::with(permissive()), runtime })
    }

    /// What is stored so far: writes to the ledger, events known, messages on the queue.
    fn stored(&self) -> (usize, usize, usize) {
        (self.world.ledger.writes(), self.world.ledger.rows().len(), self.world.events.depth())
    }

    /// Takes every message off the queue of events.
    fn take_messages(&self) -> Vec<String> {
        let mut bodies = Vec::new();
        while self.world.events.depth() > 0 {
            for message in self.world.events.receive(10) {
                self.world.events.delete(&message.receipt);
                bodies.push(message.body);
            }
        }
        bodies
    }
}

/// The shipped flows, with a sender that may send as much as a target does, in every form.
fn permissive() -> Flows {
    let mut files = files();
    let rate = "{limit: 10000/s, burst: 1000000}\n  form: payload";
    files[0].text = files[0].text.replace("{limit: 100/s, burst: 200}", rate);
    Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"))
}
