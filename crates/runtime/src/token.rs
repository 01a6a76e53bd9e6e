//! Where a completion goes: the 32 bits that the runtime gives along with every operation.
//!
//! ```text
//!  31    30 29        26 25      24 23                    0
//! +--------+------------+----------+-----------------------+
//! | target | table      | purpose  | index                 |
//! +--------+------------+----------+-----------------------+
//! ```
#![forbid(unsafe_code)]

use plimsoll_reactor::Token;

/// Entries of a table, and waiters, at most.
pub(crate) const INDEX_MAX: u32 = (1 << 24) - 1;
/// Tables of a worker at most.
pub(crate) const TABLES_MAX: usize = 16;

/// What an operation of a connection table is for; at most one of each is in flight for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    Receive = 0,
    Send = 1,
    /// Tells of the peer's end of file while nothing is received.
    Watch = 2,
    /// The table's own accept.
    Accept = 3,
}

/// Whom a completion is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Waiter {
        index: u32,
    },
    Table {
        table: u8,
        purpose: Purpose,
        index: u32,
    },
    /// Nobody of this runtime, such as the driver's own closes.
    Unknown,
}

impl Target {
    pub(crate) fn token(self) -> Token {
        match self {
            Self::Waiter { index } => {
                assert!(index <= INDEX_MAX);
                Token(index)
            }
            Self::Table { table, purpose, index } => {
                assert!(index <= INDEX_MAX && usize::from(table) < TABLES_MAX);
                Token(1 << 30 | u32::from(table) << 26 | (purpose as u32) << 24 | index)
            }
            Self::Unknown => Token(u32::MAX),
        }
    }

    pub(crate) fn of(token: Token) -> Self {
        let index = token.0 & INDEX_MAX;
        match token.0 >> 30 {
            0 => Self::Waiter { index },
            1 => {
                let purpose = match token.0 >> 24 & 3 {
                    0 => Purpose::Receive,
                    1 => Purpose::Send,
                    2 => Purpose::Watch,
                    _ => Purpose::Accept,
                };
                Self::Table { table: (token.0 >> 26 & 15) as u8, purpose, index }
            }
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_survives_packing() {
        let purposes = [Purpose::Receive, Purpose::Send, Purpose::Watch, Purpose::Accept];
        for index in [0, 1, 77, INDEX_MAX] {
            assert_eq!(Target::of(Target::Waiter { index }.token()), Target::Waiter { index });
            for table in 0..TABLES_MAX as u8 {
                for purpose in purposes {
                    let target = Target::Table { table, purpose, index };
                    assert_eq!(Target::of(target.token()), target);
                }
            }
        }
        assert_eq!(Target::of(Target::Unknown.token()), Target::Unknown);
    }
}
