//! One suite for the ports, on the models and on the emulator alike.
//!
//! The models earn their trust here: what the other tests see over them is what the real ledger and
//! the real queues do.

mod budgets;
mod caps;
mod contacts;
mod formats;
mod latest;
mod ledger;
mod limits;
mod lines;
mod pressure;
mod queue;
mod races;
mod secrets;
mod storm;
mod switchboard;
mod token_crypto;
mod tokens;
mod windows;

/// Runs each of a module's functions once over its `model()` and once over its `emulator()`.
macro_rules! on_model_and_emulator {
    ($($name:ident),+ $(,)?) => {
        mod on_the_model {
            $(#[tokio::test] async fn $name() { super::$name(super::model()).await })+
        }
        mod on_the_emulator {
            $(#[tokio::test]
            #[ignore = "needs the local cloud: make test"]
            async fn $name() { super::$name(super::emulator().await).await })+
        }
    };
}
use on_model_and_emulator;
