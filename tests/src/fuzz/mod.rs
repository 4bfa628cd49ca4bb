//! Real payloads, spoiled at random, against what must hold whatever is sent.
//!
//! Every target is an ordinary test: it runs for some seconds under a plain `cargo test`, and for as long
//! as one likes, guided by coverage, under `make fuzz`. A failure prints the input at its smallest, and its
//! seed. What was found once stands as a named test below its target.

mod envelopes;
mod flows;
mod gateway;
mod payload;
mod retry_after;
mod signatures;
mod templates;

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use shared::flow::Flows;

use crate::fixtures::files;
use crate::memory::World;

/// How long each target runs as a test. `make fuzz` takes its time from its own argument.
const TEST_TIME: Duration = Duration::from_secs(4);

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
