//! What memory is wanted for.
#![forbid(unsafe_code)]

/// What memory is wanted for: the earlier of these, the more of it is granted while all wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Output of an answer that has begun. Weight 4.
    Output = 0,
    /// The body of a request that was admitted. Weight 2.
    Body = 1,
    /// A new request. Weight 1.
    Head = 2,
}

impl Priority {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// The first to the last.
    pub const ALL: [Priority; Self::COUNT] = [Self::Output, Self::Body, Self::Head];

    /// Of so many grants in a row, this priority gets its weight while all three wait: 4, 2, 1 of 7.
    #[must_use]
    pub const fn weight(self) -> u32 {
        4 >> self as u32
    }
}
