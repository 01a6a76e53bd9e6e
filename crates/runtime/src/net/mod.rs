//! TCP: streams and listeners for tasks, and the connection table that servers are built on.
//!
//! | type | for |
//! |---|---|
//! | [`TcpStream`], [`TcpListener`] | protocols written as a task per connection |
//! | [`Table`] | servers whose parked connections shall cost a slot and nothing else |
//!
//! # Cancel safety
//!
//! A receive belongs to the connection and an accept to the listener: dropping their futures loses nothing. A send that
//! was dropped before it was done leaves it open how much the peer got, so the stream refuses further sends
//! ([`Error::SendInterrupted`](crate::Error::SendInterrupted)).
#![forbid(unsafe_code)]

mod kernel;
mod listener;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod table;

pub use listener::{ListenAddress, TcpListener};
pub use plimsoll_reactor::{ListenOptions, RECEIVE_BYTES_MAX, RECEIVE_LEASES_MAX, SocketOption};
pub use stream::{ReadHalf, TcpStream, WriteHalf};
pub use table::{Adopted, Bytes, Event, TIMER_STEP, Table, TableConfig};
