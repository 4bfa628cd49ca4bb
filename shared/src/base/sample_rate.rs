//! A share of many, the same ones in every container.

/// A share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRate(f64);

impl SampleRate {
    /// All of them.
    pub const ALL: SampleRate = SampleRate(1.0);

    /// This share.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(SampleRate(share))
    }

    /// Whether the one that has drawn this number is among them. All numbers must be equally likely.
    pub fn takes(self, drawn: u32) -> bool {
        f64::from(drawn) < self.0 * f64::from(u32::MAX) || self.0 >= 1.0
    }
}
