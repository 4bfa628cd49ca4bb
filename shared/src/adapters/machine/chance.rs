//! Random numbers of the operating system.

use crate::base::machine::Chance;

/// The operating system's random numbers.
#[derive(Clone, Copy, Debug)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn bits(&self) -> u64 {
        getrandom::u64().expect("the operating system has random numbers")
    }
}
