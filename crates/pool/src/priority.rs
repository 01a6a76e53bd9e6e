//! What memory is wanted for.
#![forbid(unsafe_code)]

/// What memory is wanted for: the earlier of these, the more of it is granted while all wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Output of an answer that has begun. Of 7 bytes, 4.
    Output = 0,
    /// The body of a request that was admitted. Of 7 bytes, 2.
    Body = 1,
    /// A new request. Of 7 bytes, 1.
    Head = 2,
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The first to the last.
    pub const ALL: [Priority; Self::COUNT] = [Self::Output, Self::Body, Self::Head];

    /// How much more a byte costs than one of output.
    pub(crate) const fn cost(self) -> u64 {
        1 << self as u32
    }
}
