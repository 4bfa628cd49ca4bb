//! The three functions, as containers that start, work on one invocation at a time, and go down.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use intake::{Accepted, Intake, Rejection};
use processor::Processor;
use replay::{Failure, Operation, Replay};
use serde_json::Value;
use shared::model::Delivered;

use crate::scheduler::Actor;

/// How long a worker's lease is. This and the numbers below are the template's: a test compares them.
pub const LEASE: Duration = Duration::from_secs(60);
/// How long a message that was received is hidden from others.
pub const VISIBILITY: Duration = Duration::from_secs(180);
/// How often the queue delivers a message before it gives up.
pub const MAX_RECEIVES: usize = 1000;
/// How long the intake may take.
pub(crate) const INTAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the processor may take.
pub const PROCESSOR_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the replay may take.
pub(crate) const REPLAY_TIMEOUT: Duration = Duration::from_secs(30);

/// A function that is loaded.
#[derive(Clone)]
pub(crate) enum LoadedFunction {
    Intake(Arc<Intake>),
    Processor(Arc<Processor>),
    Replay(Arc<Replay>),
}

/// One container.
pub(crate) struct Container {
    pub(crate) function: LoadedFunction,
    /// The format that its version of the code writes and reads.
    pub(crate) format: u32,
    pub(crate) busy: Option<Invocation>,
}

/// How an invocation ended.
pub(crate) enum InvocationEnd {
    Answered(usize, Result<Accepted, Rejection>),
    Processed(Vec<Delivered>, Vec<String>),
    Parked(Vec<Delivered>, Vec<String>),
    Operated(usize, Operation, Result<Value, Failure>),
    Scheduled(Result<Value, Failure>),
}

/// An invocation at work.
pub(crate) struct Invocation<E = InvocationEnd> {
    pub(crate) number: u64,
    work: Pin<Box<dyn Future<Output = E>>>,
    woken: Arc<Woken>,
    /// Who finds out if it is lost.
    pub(crate) caller: Option<Actor>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl<E> Invocation<E> {
    pub(crate) fn new(number: u64, caller: Option<Actor>, work: impl Future<Output = E> + 'static) -> Self {
        Invocation { number, work: Box::pin(work), woken: Arc::default(), caller }
    }

    /// Works until it waits for its turn again, or has ended.
    pub(crate) fn go_on(&mut self) -> Option<E> {
        let waker = Waker::from(Arc::clone(&self.woken));
        loop {
            self.woken.0.store(false, Ordering::SeqCst);
            if let Poll::Ready(ended) = self.work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(ended);
            }
            if !self.woken.0.load(Ordering::SeqCst) {
                return None;
            }
        }
    }
}
