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

use std::fmt::Debug;
use std::time::Duration;

/// Asks until the answer is the expected one. An index of DynamoDB lags behind its table, and SQS counts late: what is
/// expected must come in time, and need not be there at once.
async fn comes<T: PartialEq + Debug>(expected: T, ask: impl AsyncFn() -> T) {
    for _ in 0..TRIES {
        if ask().await == expected {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(ask().await, expected);
}

const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// Runs each of a module's functions once over its `model()` and once over its `emulator()`. Those behind `lagging` are run over
/// its `lagging()` besides: a model whose index shows some rows as they were.
macro_rules! on_model_and_emulator {
    ($($name:ident,)+ ; lagging: $($lagging:ident),+ $(,)?) => {
        on_model_and_emulator!($($name,)+ $($lagging),+);
        mod on_a_lagging_model {
            $(#[tokio::test] async fn $lagging() { super::$lagging(super::lagging()).await })+
        }
    };
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
