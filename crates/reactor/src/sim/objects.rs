//! What a descriptor stands for: a socket, a listener, a file.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::collections::VecDeque;

use super::files::OpenFile;
use crate::{Address, Errno, SocketKind};

/// What a descriptor stands for.
#[derive(Debug)]
pub(crate) enum Object {
    Socket(Socket),
    Listener(Listener),
    File(OpenFile),
}

/// A stream socket that does not listen.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) kind: SocketKind,
    pub(crate) state: SocketState,
    pub(super) options: Options,
}

/// How far a socket has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketState {
    Fresh,
    /// A connection attempt is under way.
    Connecting(u64),
    Connected {
        conn: u64,
        side: usize,
    },
    /// A connection attempt failed, and nobody was told yet.
    Failed(Errno),
}

/// What was set on a socket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) linger: Option<Duration>,
    pub(super) receive_buffer: Option<u32>,
    pub(super) send_buffer: Option<u32>,
    pub(super) not_sent_low_water: Option<u32>,
    pub(super) user_timeout: Option<Duration>,
}

impl Socket {
    pub(crate) fn new(kind: SocketKind, state: SocketState) -> Self {
        Self { kind, state, options: Options::default() }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    pub(crate) backlog: u32,
    pub(super) reuse_port: bool,
    /// Handshakes do not begin any more.
    pub(crate) refuses: bool,
    /// Connections that wait to be accepted.
    pub(crate) queue: VecDeque<u64>,
}
