//! Random numbers from a seed: the same seed and the same name give the same number, in whatever order they are
//! drawn.

/// A seed, from which anything that has a name draws its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeededRandom {
    seed: u64,
}

impl SeededRandom {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The numbers of one named thing.
    pub fn of(self, name: impl AsRef<[u8]>) -> Self {
        // FNV-1a, finished by a mixer: neighbouring names must not draw neighbouring numbers.
        let hash = name.as_ref().iter().fold(0xcbf2_9ce4_8422_2325 ^ self.seed, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { seed: mix(hash) }
    }

    /// The numbers of the nth of several.
    pub fn nth(self, n: usize) -> Self {
        self.of((n as u64).to_le_bytes())
    }

    /// A number below `limit`, which is not zero.
    pub fn below(self, limit: u64) -> u64 {
        mix(self.seed) % limit.max(1)
    }

    /// Whether something happens here that happens in `percent` of all cases.
    pub fn happens(self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// A number from 0 to 1.
    pub fn unit(self) -> f64 {
        self.below(1 << 32) as f64 / (1u64 << 32) as f64
    }
}

/// The finisher of SplitMix64.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_draws_the_same_number_each_time_and_other_names_draw_others() {
        let random = SeededRandom::new(7);
        assert_eq!(random.of("/mail/1").below(1000), random.of("/mail/1").below(1000));
        let drawn: std::collections::BTreeSet<u64> = (0..100).map(|n| random.nth(n).below(u64::MAX)).collect();
        assert_eq!(drawn.len(), 100);
        assert_ne!(random.of("a").below(u64::MAX), SeededRandom::new(8).of("a").below(u64::MAX));
    }

    #[test]
    fn what_happens_in_some_percent_happens_about_so_often() {
        let happened = (0..10_000).filter(|n| SeededRandom::new(7).nth(*n).happens(15)).count();
        assert!((1_300..1_700).contains(&happened), "{happened}");
    }
}
