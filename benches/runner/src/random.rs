//! Numbers that follow from a seed.

/// A xorshift generator; never zero.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// From a seed; the few that would give only zeros are one and the same.
    pub(crate) const fn new(seed: u64) -> Random {
        Random(if seed == 0 { 1 } else { seed })
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end.max(1)
    }

    /// One of these; there is at least one.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Another generator, whose numbers have nothing to do with those that follow here.
    pub(crate) fn fork(&mut self) -> Random {
        // The finaliser of splitmix64: neighbouring states become distant seeds.
        let mut seed = self.next().wrapping_add(0x9e37_79b9_7f4a_7c15);
        seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Random::new(seed ^ (seed >> 31))
    }
}
