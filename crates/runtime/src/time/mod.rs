//! Time: [`sleep`], [`timeout`], [`interval`], and below them which timers are due.
//!
//! Two structures, for two kinds of deadline. Neither reads a clock: the worker tells them what time it is.
//!
//! | | `Wheel` | `Coarse` |
//! |---|---|---|
//! | for | `sleep`, `timeout`, `interval` | idle and other protocol timeouts |
//! | unit | 1 ms | 64 ms |
//! | most deadlines | are reached | are put off with each packet, and reached by the idle only |
//! | putting one off | moves an entry | writes four bytes |
//! | memory for one | an entry in chunks of the caller's | a `Link` in a record of the owner's |

#![forbid(unsafe_code)]

mod coarse;
mod sleep;
mod timers;
mod wheel;

pub(crate) use coarse::{Coarse, Link, Links, TICK_MS};
pub use sleep::{Interval, Sleep, interval, sleep, sleep_until, timeout};
pub(crate) use timers::Timers;
pub(crate) use wheel::{TimerKey, Wheel};
