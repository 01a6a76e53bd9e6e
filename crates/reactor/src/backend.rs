//! The three backends behind one set of verbs.
//!
//! | verb | meaning |
//! |---|---|
//! | `start` | begin an operation that is in its slot; never fails: an error is a completion, a full queue a backlog in order |
//! | `cancel` | ask for an operation to end; its completion still comes |
//! | `enter` | hand over everything started, and wait |
//! | `next` | the next operation whose last completion has come |
//! | `close_now` and the socket verbs | done at once, they do not block |
#![forbid(unsafe_code)]

use std::io::IoSlice;

use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use crate::fd::Number;
use crate::mio::Mio;
use crate::net::{ListenOptions, Shared, SocketKind, SocketOption};
use crate::op::{Errno, Shutdown};
use crate::sim::{NodeId, Sim};
use crate::slots::{Raw, Slots};
use crate::uring::Uring;
use crate::{Address, DriverKind, Error, Instant, Wait, sys};

/// The driver chosen at run time.
pub(crate) enum Backend {
    Uring(Box<Uring>),
    Mio(Box<Mio>),
    Sim(Box<Sim>),
}

macro_rules! each {
    ($self:expr, $backend:ident => $call:expr) => {
        match $self {
            Backend::Uring($backend) => $call,
            Backend::Mio($backend) => $call,
            Backend::Sim($backend) => $call,
        }
    };
}

impl Backend {
    pub(crate) fn kind(&self) -> DriverKind {
        match self {
            Self::Uring(_) => DriverKind::Uring,
            Self::Mio(_) => DriverKind::Mio,
            Self::Sim(_) => DriverKind::Sim,
        }
    }

    pub(crate) fn start(&mut self, key: Key, slots: &mut Slots) {
        each!(self, backend => backend.start(key, slots));
    }

    pub(crate) fn cancel(&mut self, key: Key, slots: &mut Slots) {
        each!(self, backend => backend.cancel(key, slots));
    }

    pub(crate) fn enter(&mut self, wait: Wait, slots: &mut Slots) -> Result<(), Errno> {
        each!(self, backend => backend.enter(wait, slots))
    }

    pub(crate) fn next(&mut self, slots: &mut Slots) -> Option<Raw> {
        each!(self, backend => backend.next(slots))
    }

    /// Whether `next` would have something without entering.
    pub(crate) fn has_ready(&self) -> bool {
        each!(self, backend => backend.has_ready())
    }

    /// Whether receives wait until received bytes that were lent come back.
    pub(crate) fn is_short_of_buffers(&self) -> bool {
        each!(self, backend => backend.is_short_of_buffers())
    }

    pub(crate) fn now(&self) -> Instant {
        each!(self, backend => backend.now())
    }

    /// Bytes of rings and receive buffers.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        each!(self, backend => backend.fixed_bytes())
    }

    pub(crate) fn enobufs_total(&self) -> u64 {
        each!(self, backend => backend.enobufs_total())
    }

    /// The driver's name in its simulated world.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Sim(sim) => Some(sim.node()),
            Self::Uring(_) | Self::Mio(_) => None,
        }
    }

    /// It will be leaked. A simulated world must not wait for it any more, a ring must not keep open what it watches,
    /// and what was to be closed is closed.
    pub(crate) fn abandon(&mut self, slots: &mut Slots) {
        match self {
            Self::Sim(sim) => sim.retire(),
            Self::Uring(uring) => uring.abandon(slots),
            Self::Mio(mio) => mio.abandon(slots),
        }
    }

    pub(crate) fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Number, Error> {
        each!(self, backend => backend.listen(address, options))
    }

    /// A listener on the same queue, for another thread's driver.
    pub(crate) fn share(&mut self, listener: Number) -> Result<Shared, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::duplicate(listener).map(Shared::Real),
            Self::Sim(sim) => sim.share(listener),
        }
    }

    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Number, Errno> {
        each!(self, backend => backend.socket(kind))
    }

    pub(crate) fn accept_now(&mut self, listener: Number) -> Result<Option<Number>, Errno> {
        each!(self, backend => backend.accept_now(listener))
    }

    /// An operation on this descriptor must not be made again: it is about to be closed.
    pub(crate) fn closes(&mut self, fd: Number, slots: &mut Slots) {
        match self {
            Self::Uring(uring) => uring.closes(fd, slots),
            // They end what waits when the descriptor is closed.
            Self::Mio(_) | Self::Sim(_) => {}
        }
    }

    pub(crate) fn close_now(&mut self, fd: Number, slots: &mut Slots) {
        match self {
            Self::Uring(uring) => uring.close_now(fd),
            Self::Mio(mio) => mio.close_now(fd, slots),
            Self::Sim(sim) => sim.close_now(fd),
        }
    }

    pub(crate) fn send_now(&mut self, fd: Number, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::send(fd, bytes),
            Self::Sim(sim) => sim.send_now(fd, bytes),
        }
    }

    pub(crate) fn send_vectored_now(&mut self, fd: Number, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::send_vectored(fd, slices),
            Self::Sim(sim) => sim.send_vectored_now(fd, slices),
        }
    }

    pub(crate) fn shutdown_now(&mut self, fd: Number, how: Shutdown) -> Result<(), Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::shutdown(fd, how),
            Self::Sim(sim) => sim.shutdown_now(fd, how),
        }
    }

    pub(crate) fn discard_now(&mut self, fd: Number, bytes_max: usize) -> Result<usize, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::discard(fd, bytes_max),
            Self::Sim(sim) => sim.discard_now(fd, bytes_max),
        }
    }

    pub(crate) fn receive_now(
        &mut self,
        fd: Number,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        match self {
            Self::Uring(uring) => uring.receive_now(fd, leases, bytes_max),
            Self::Mio(mio) => mio.receive_now(fd, leases, bytes_max),
            Self::Sim(sim) => sim.receive_now(fd, leases, bytes_max),
        }
    }

    pub(crate) fn read_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Uring(uring) => uring.read_now(fd, room),
            Self::Mio(mio) => mio.read_now(fd, room),
            Self::Sim(sim) => sim.read_now(fd, room),
        }
    }

    pub(crate) fn peek_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::peek(fd, room),
            Self::Sim(sim) => sim.peek_now(fd, room),
        }
    }

    pub(crate) fn refuse_connects(&mut self, listener: Number) -> Result<(), Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::refuse_connects(listener),
            Self::Sim(sim) => sim.refuse_connects(listener),
        }
    }

    pub(crate) fn is_readable_now(&mut self, fd: Number) -> bool {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::poll_now(fd, libc::POLLIN).is_ok_and(|ready| ready != 0),
            Self::Sim(sim) => sim.is_readable_now(fd),
        }
    }

    pub(crate) fn is_gone_now(&mut self, fd: Number) -> bool {
        match self {
            // Hang-up and errors are told whatever is asked for.
            Self::Uring(_) | Self::Mio(_) => sys::poll_now(fd, 0) != Ok(0),
            Self::Sim(sim) => sim.is_gone_now(fd),
        }
    }

    pub(crate) fn local_address(&self, fd: Number) -> Result<Address, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::local_address(fd),
            Self::Sim(sim) => sim.local_address(fd),
        }
    }

    pub(crate) fn peer_address(&self, fd: Number) -> Result<Address, Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::peer_address(fd),
            Self::Sim(sim) => sim.peer_address(fd),
        }
    }

    pub(crate) fn set_option(&mut self, fd: Number, option: SocketOption) -> Result<(), Errno> {
        match self {
            Self::Uring(_) | Self::Mio(_) => sys::set_option(fd, option),
            Self::Sim(sim) => sim.set_option(fd, option),
        }
    }
}
