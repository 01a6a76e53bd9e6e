//! TCP and Unix sockets: streams and listeners for tasks, and the connection table that servers are built on.
//!
//! | type | for |
//! |---|---|
//! | [`TcpStream`], [`TcpListener`] | protocols written as a task per connection |
//! | [`UnixStream`], [`UnixListener`] | the same within a host |
//! | [`Stream`], [`Listener`] | the same for both, chosen by an [`Address`] |
//! | [`Table`] | servers whose parked connections shall cost a slot and nothing else |
//!
//! # Cancel safety
//!
//! A receive belongs to the connection and an accept to the listener: dropping their futures loses nothing. A send that
//! was dropped before it was done leaves it open how much the peer got, so the stream refuses further sends
//! ([`Error::SendInterrupted`](crate::Error::SendInterrupted)).
#![forbid(unsafe_code)]

use core::net::SocketAddr;

mod address;
mod kernel;
mod listener;
pub(crate) mod socket;
pub(crate) mod stream;
pub(crate) mod table;
#[doc(hidden)]
pub mod transport;

pub use address::{ListenAddress, SocketAddress};
pub use listener::SocketListener;
pub use plimsoll_reactor::{
    Address, InheritError, Inherited, InvalidAddress, ListenOptions, PassedOn, RECEIVE_BYTES_MAX, RECEIVE_LEASES_MAX,
    SharedListener, SocketOption, UnixAddress, inherited, pass_on,
};
pub use stream::{ReadHalf, SocketStream, WriteHalf};
pub use table::{Adopted, Bytes, Event, TIMER_STEP, Table, TableConfig};

/// A TCP connection.
pub type TcpStream = SocketStream<SocketAddr>;
/// A TCP listener of one worker.
pub type TcpListener = SocketListener<SocketAddr>;
/// A connection of a Unix socket.
pub type UnixStream = SocketStream<UnixAddress>;
/// A listener of one worker at a Unix socket.
pub type UnixListener = SocketListener<UnixAddress>;
/// A connection of either family.
pub type Stream = SocketStream<Address>;
/// A listener of one worker, of either family.
pub type Listener = SocketListener<Address>;
