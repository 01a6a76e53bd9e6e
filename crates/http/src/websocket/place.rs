//! Where a WebSocket is: in the table of its worker, or on a stream of HTTP/2.

use ::core::cell::{Cell, RefCell};
use ::core::net::SocketAddr;
use ::core::num::NonZeroU32;
use ::core::task::Context;
use std::rc::Rc;

use plimsoll_pool::Charge;
use plimsoll_runtime::SharedBytes;
use plimsoll_slab::Key;

use super::entry::Socket;
use super::group::Handed;
use super::wire::{Flags, Wire};
use crate::exchange::handle::ExchangeHandle;
use crate::exchange::user_code::UserWaker;
use crate::memory::desk::Desk;
use crate::memory::waits::Waits;

/// The WebSockets in the table of a worker.
pub(crate) trait Sockets {
    fn desk(&self) -> &Desk;

    /// Runs `act` on one, if it is there and not being worked on.
    fn on_socket(&self, key: Key, act: &mut dyn FnMut(&mut Socket));

    /// Sends bytes of a hub on one, if nothing is on its way there.
    fn hand_over(&self, key: Key, bytes: SharedBytes) -> Handed;
}

/// How those who have a socket reach it: in one pointer, as each has it.
pub(crate) struct Port(Rc<dyn Sockets>);

impl Port {
    pub(crate) fn new(sockets: Rc<dyn Sockets>) -> Rc<Self> {
        Rc::new(Self(sockets))
    }

    pub(super) fn desk(&self) -> &Desk {
        self.0.desk()
    }

    /// Times have begun for some, which the worker does not know of yet.
    pub(crate) fn note_times(&self) {
        self.desk().wake_engine();
    }

    pub(super) fn hand_over(&self, key: Key, bytes: SharedBytes) -> Handed {
        self.0.hand_over(key, bytes)
    }
}

/// As whoever has the socket knows it.
#[derive(Clone)]
pub(super) enum Place {
    /// The worker steps it.
    Table(Rc<Port>, Key),
    /// A task steps it.
    Stream(Rc<Stream>),
}

/// A WebSocket on a stream, beside the task that steps it.
pub(crate) struct Stream {
    pub(super) handle: ExchangeHandle,
    pub(super) socket: RefCell<Socket>,
    /// Of the task.
    waker: Cell<Option<UserWaker>>,
    _charge: Charge,
}

impl Stream {
    pub(super) fn new(handle: ExchangeHandle, socket: Socket, charge: Charge) -> Self {
        Self { handle, socket: RefCell::new(socket), waker: Cell::new(None), _charge: charge }
    }

    pub(super) fn desk(&self) -> &Desk {
        self.handle.connection_desk()
    }

    /// As whom it waits for memory.
    pub(super) fn waits(&self) -> Waits {
        Waits::new(self.handle.id.key(), self.handle.id.stream().and_then(|stream| NonZeroU32::new(stream.id)))
    }

    /// Whether something was changed since the last look; else the task is woken when it is.
    pub(super) fn poll_listed(&self, cx: &Context<'_>) -> bool {
        let is_listed = self.socket.borrow_mut().wire.flags.put(Flags::LISTED, false);
        if !is_listed {
            self.waker.set(Some(UserWaker::of(cx)));
        }
        is_listed
    }
}

impl Place {
    pub(super) fn desk(&self) -> &Desk {
        match self {
            Self::Table(port, _) => port.desk(),
            Self::Stream(stream) => stream.desk(),
        }
    }

    /// Runs `act` on the WebSocket, if it is there and not being worked on.
    #[inline]
    pub(super) fn on<R>(&self, mut act: impl FnMut(&mut Socket) -> R) -> Option<R> {
        let mut result = None;
        // One for both, so that what it does is inlined there.
        let run: &mut dyn FnMut(&mut Socket) = &mut |socket| result = Some(act(socket));
        match self {
            Self::Table(port, key) => port.0.on_socket(*key, run),
            Self::Stream(stream) => {
                if let Ok(mut socket) = stream.socket.try_borrow_mut() {
                    run(&mut socket);
                }
            }
        }
        result
    }

    /// The same, and it is looked after then.
    pub(super) fn with<R>(&self, desk: &Desk, mut act: impl FnMut(&mut Socket) -> R) -> Option<R> {
        self.on(|socket| {
            let result = act(socket);
            self.list(desk, &mut socket.wire);
            result
        })
    }

    /// Has the WebSocket looked after.
    pub(super) fn list(&self, desk: &Desk, wire: &mut Wire) {
        if wire.flags.put(Flags::LISTED, true) {
            return;
        }
        match self {
            Self::Table(_, key) => {
                desk.enlist(*key);
            }
            Self::Stream(stream) => stream.waker.take().into_iter().for_each(UserWaker::wake),
        }
    }

    /// Has it looked after once the task that was woken has had its turn.
    pub(super) fn list_later(&self, desk: &Desk, wire: &mut Wire) {
        match self {
            Self::Table(_, key) => {
                if !wire.flags.put(Flags::LISTED, true) {
                    desk.list_later(*key);
                }
            }
            // Its task says so itself.
            Self::Stream(_) => {}
        }
    }

    /// Its task takes its turn: memory that was kept for it is free now.
    pub(super) fn release_kept_for(&self, desk: &Desk) {
        match self {
            Self::Table(_, key) => desk.release_kept_for(*key),
            Self::Stream(stream) => desk.release_kept_for(stream.handle.id.key()),
        }
    }

    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Table(port, key) => port.desk().peer_address(*key),
            Self::Stream(stream) => stream.handle.peer_addr().ok(),
        }
    }
}
