//! The only source of chance in a simulated world: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", 2014). One word of state, every seed is good, and the numbers are the same on every machine.
#![forbid(unsafe_code)]

/// A seeded generator.
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `[0, bound)`, by multiplication: the bias is below 2^-32 for every bound used here.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is a number below the bound");
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A number in `[low, high]`.
    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an interval has its ends in order");
        match (high - low).checked_add(1) {
            Some(width) => low + self.below(width),
            None => self.next(),
        }
    }

    /// A size in `[1, whole]`: half the time tiny, half the time anything.
    pub(crate) const fn part(&mut self, whole: usize) -> usize {
        assert!(whole > 0, "a part of nothing");
        let high = if self.below(2) == 0 && whole > 4 { 4 } else { whole };
        self.between(1, high as u64) as usize
    }

    /// True `chance` times in a million.
    pub(crate) const fn per_million(&mut self, chance: u32) -> bool {
        self.below(1_000_000) < chance as u64
    }
}

/// Spreads every input bit over all output bits.
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
