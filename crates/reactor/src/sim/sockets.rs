//! What can be done with a simulated socket, with Linux's answers.
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::IoSlice;

use plimsoll_pool::Lease;

use super::config::nanos;
use super::faults::Fault;
use super::flight::{Dial, Flight, Outcome, Pause, Verb};
use super::kernel::Kernel;
use super::network::{End, Life, Receiving, USER_TIMEOUT_NS};
use super::objects::{Object, Socket, SocketState};
use super::pipe::{Pipe, Tail};
use super::trace::{Entry, bytes_hash};
use crate::fd::Number;
use crate::op::{Interest, Shutdown};
use crate::{Address, Errno, SocketKind, SocketOption, UnixAddress};

/// The smallest buffer that `SO_RCVBUF` and `SO_SNDBUF` make.
const SOCKET_BUFFER_BYTES_MIN: u32 = 2_304;

/// A connected socket's view of its connection.
struct View<'a> {
    end: &'a mut End,
    /// What the peer sends.
    inward: &'a mut Pipe,
    /// What the peer gets.
    outward: &'a mut Pipe,
}

impl View<'_> {
    /// Nothing more will be received behind what has arrived.
    fn ended(&self) -> bool {
        self.end.life != Life::Live || self.end.receiving == Receiving::Shut || self.inward.tail() == Tail::Arrived
    }

    /// The error that was not told yet.
    fn take_error(&mut self) -> Option<Errno> {
        let Life::Failed(errno) = self.end.life else { return None };
        self.end.life = Life::Dead;
        Some(errno)
    }

    /// Whether there is a hang-up or an error, which end every poll.
    fn is_gone(&self) -> bool {
        let hung_up = self.ended() && self.outward.tail() != Tail::Open;
        hung_up || self.end.life != Life::Live
    }

    /// Whether a poll for `interest` ends.
    fn is_ready(&self, interest: Interest, low_water: Option<u32>) -> bool {
        if self.is_gone() {
            return true;
        }
        match interest {
            Interest::Readable => self.inward.arrived() > 0 || self.ended(),
            Interest::Writable if self.outward.tail() != Tail::Open => true,
            Interest::Writable => {
                let below = low_water.is_none_or(|bytes| self.outward.unsent() < bytes as usize);
                below && self.outward.room() * 3 >= self.outward.send_max
            }
            Interest::PeerClosed => self.inward.tail() == Tail::Arrived || self.end.receiving == Receiving::Shut,
        }
    }
}

impl Kernel {
    pub(crate) fn open(&mut self, object: Object) -> Result<Number, Errno> {
        let fd = self.descriptors.open(object)?;
        self.record(Entry::Opened(fd));
        Ok(fd)
    }

    /// Closes a descriptor; operations that wait on it end.
    pub(crate) fn close(&mut self, fd: Number) -> Result<(), Errno> {
        let descriptor = self.descriptors.close(fd).ok_or(Errno(libc::EBADF))?;
        self.record(Entry::Closed(fd));
        match descriptor.object {
            Object::File(_) => {}
            Object::Socket(socket) => {
                let abort = socket.options.linger == Some(Duration::ZERO) && socket.kind != SocketKind::Unix;
                match socket.state {
                    SocketState::Connecting(conn) => self.close_end(conn, 0, true),
                    SocketState::Connected { conn, side } => self.close_end(conn, side, abort),
                    SocketState::Fresh | SocketState::Failed(_) => {}
                }
            }
            Object::Listener(listener) => {
                let at = self.network.listeners.get_mut(&listener.address).expect("a listener is in the directory");
                at.retain(|&other| other != fd);
                if at.is_empty() {
                    self.network.listeners.remove(&listener.address);
                }
                for conn in listener.queue {
                    self.close_end(conn, 1, true);
                }
            }
        }
        self.end_all(descriptor.waiting);
        Ok(())
    }

    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Number, Errno> {
        if self.fault(Fault::SocketNoDescriptors) {
            return Err(Errno(libc::EMFILE));
        }
        self.open(Object::Socket(Socket::new(kind, SocketState::Fresh)))
    }

    /// Tries an operation that waits on a socket; `None` if it has to wait on.
    pub(crate) fn attempt(&mut self, fd: Number, flight: &mut Flight) -> Option<Outcome> {
        match flight.pause {
            Pause::Until(at) if at > self.now => return None,
            Pause::Until(_) => flight.pause = Pause::Over,
            Pause::Never | Pause::Over => {}
        }
        let descriptor = self.descriptors.get(fd)?;
        let (kind, state) = match (&descriptor.object, &flight.verb) {
            (_, Verb::Accept) => {
                return match self.accept(fd) {
                    Ok(None) => None,
                    Ok(Some(accepted)) => Some(Outcome::new(Ok(accepted.raw() as u32))),
                    Err(errno) => Some(Outcome::new(Err(errno))),
                };
            }
            (Object::File(_), Verb::Poll(_)) => return Some(Outcome::new(Ok(0))),
            (Object::File(_), _) => return Some(Outcome::error(libc::ENOTSOCK)),
            (Object::Listener(listener), Verb::Poll(interest)) => {
                let ready = *interest == Interest::Readable && !listener.queue.is_empty();
                return ready.then(|| Outcome::new(Ok(0)));
            }
            (Object::Listener(_), Verb::Send { .. }) => return Some(Outcome::error(libc::EPIPE)),
            (Object::Listener(_), Verb::Connect { .. }) => return Some(Outcome::error(libc::EISCONN)),
            (Object::Listener(_), _) => return Some(Outcome::error(libc::ENOTCONN)),
            (Object::Socket(socket), _) => (socket.kind, socket.state),
        };
        if let Verb::Connect { address, dial } = &mut flight.verb {
            return self.attempt_connect(fd, kind, state, address.as_deref().copied(), dial);
        }
        match state {
            SocketState::Connected { conn, side } => self.attempt_connected(fd, conn, side, flight),
            SocketState::Connecting(_) if matches!(flight.verb, Verb::Shutdown(_)) => {
                Some(Outcome::error(libc::ENOTCONN))
            }
            SocketState::Connecting(_) => None,
            SocketState::Failed(_) | SocketState::Fresh if matches!(flight.verb, Verb::Poll(_)) => {
                Some(Outcome::new(Ok(0)))
            }
            SocketState::Failed(errno) => {
                self.set_state(fd, SocketState::Fresh);
                Some(Outcome::new(Err(errno)))
            }
            SocketState::Fresh if matches!(flight.verb, Verb::Send { .. }) => Some(Outcome::error(libc::EPIPE)),
            SocketState::Fresh => Some(Outcome::error(libc::ENOTCONN)),
        }
    }

    fn set_state(&mut self, fd: Number, state: SocketState) {
        if let Some(Object::Socket(socket)) = self.descriptors.get_mut(fd).map(|found| &mut found.object) {
            socket.state = state;
        }
    }

    fn attempt_connect(
        &mut self,
        fd: Number,
        kind: SocketKind,
        state: SocketState,
        address: Option<Address>,
        dial: &mut Dial,
    ) -> Option<Outcome> {
        match (state, *dial) {
            (SocketState::Connecting(_), Dial::Started) => None,
            (SocketState::Connecting(_), Dial::Fresh) => Some(Outcome::error(libc::EALREADY)),
            (SocketState::Connected { .. }, Dial::Started) => Some(Outcome::new(Ok(0))),
            (SocketState::Connected { .. }, Dial::Fresh) => Some(Outcome::error(libc::EISCONN)),
            (SocketState::Failed(errno), Dial::Started) => {
                self.set_state(fd, SocketState::Fresh);
                Some(Outcome::new(Err(errno)))
            }
            (SocketState::Fresh | SocketState::Failed(_), _) => {
                let Some(address) = address else { return Some(Outcome::error(libc::EAFNOSUPPORT)) };
                match self.dial(fd, kind, address) {
                    Ok(conn) => {
                        self.set_state(fd, SocketState::Connecting(conn));
                        *dial = Dial::Started;
                        None
                    }
                    Err(errno) => Some(Outcome::new(Err(errno))),
                }
            }
        }
    }

    fn view(&mut self, conn: u64, side: usize) -> View<'_> {
        let conn = self.network.conn_mut(conn).expect("a connected socket has its connection");
        let [zero, one] = &mut conn.pipes;
        let (outward, inward) = if side == 0 { (zero, one) } else { (one, zero) };
        View { end: &mut conn.ends[side], inward, outward }
    }

    fn attempt_connected(&mut self, fd: Number, conn: u64, side: usize, flight: &mut Flight) -> Option<Outcome> {
        if self.view(conn, side).end.life == Life::Live && self.fault(Fault::Reset) {
            self.reset_both(conn);
        }
        match &flight.verb {
            Verb::Receive { len_max } => {
                let len_max = *len_max;
                self.attempt_receive(fd, conn, side, len_max, flight)
            }
            Verb::Send { .. } => self.attempt_send(conn, side, flight),
            Verb::Shutdown(how) => Some(self.shut_down(conn, side, *how)),
            Verb::Poll(interest) => {
                let low_water = match self.descriptors.get(fd).map(|found| &found.object) {
                    Some(Object::Socket(socket)) => socket.options.not_sent_low_water,
                    _ => None,
                };
                self.view(conn, side).is_ready(*interest, low_water).then(|| Outcome::new(Ok(0)))
            }
            verb => unreachable!("not an operation on a connected socket: {verb:?}"),
        }
    }

    fn attempt_receive(
        &mut self,
        fd: Number,
        conn: u64,
        side: usize,
        len_max: usize,
        flight: &mut Flight,
    ) -> Option<Outcome> {
        let mut view = self.view(conn, side);
        let available = view.inward.arrived().min(len_max);
        if available == 0 {
            return match view.take_error() {
                Some(errno) => Some(Outcome::new(Err(errno))),
                None => view.ended().then(|| Outcome::new(Ok(0))),
            };
        }
        if flight.pause == Pause::Never && self.fault(Fault::NoBuffers) {
            self.nodes.get_mut(flight.node).enobufs += 1;
            self.pause(fd, flight);
            return None;
        }
        let mut len = available;
        if len > 1 && self.fault(Fault::ShortReceive) {
            len = self.rng.part(len);
        }
        let bytes = self.view(conn, side).inward.take(len);
        self.transmit(conn, 1 - side);
        self.changed(conn);
        Some(Outcome::brings(bytes))
    }

    fn attempt_send(&mut self, conn: u64, side: usize, flight: &Flight) -> Option<Outcome> {
        let Verb::Send { bytes } = &flight.verb else { unreachable!("only sends are sent") };
        self.push(conn, side, bytes)
    }

    /// Gives bytes to a connected socket, `None` when it takes none.
    fn push(&mut self, conn: u64, side: usize, bytes: &[u8]) -> Option<Outcome> {
        let mut view = self.view(conn, side);
        if let Some(errno) = view.take_error() {
            return Some(Outcome::new(Err(errno)));
        }
        if view.end.life != Life::Live || view.outward.tail() != Tail::Open {
            return Some(Outcome::error(libc::EPIPE));
        }
        let mut len = view.outward.room().min(bytes.len());
        if len == 0 {
            return None;
        }
        if len > 1 && self.fault(Fault::ShortSend) {
            len = self.rng.part(len);
        }
        let taken = self.view(conn, side).outward.push(&bytes[..len]);
        assert_eq!(taken, len, "the room was checked");
        self.transmit(conn, side);
        self.changed(conn);
        Some(Outcome::new(Ok(len as u32)))
    }

    /// The connection of a socket, which goes wrong as often as with an operation.
    fn connection_of(&mut self, fd: Number) -> Result<(u64, usize), Errno> {
        let descriptor = self.descriptors.get(fd).ok_or(Errno(libc::EBADF))?;
        let Object::Socket(socket) = &descriptor.object else { return Err(Errno(libc::ENOTSOCK)) };
        let SocketState::Connected { conn, side } = socket.state else { return Err(Errno(libc::ENOTCONN)) };
        if self.view(conn, side).end.life == Life::Live && self.fault(Fault::Reset) {
            self.reset_both(conn);
        }
        Ok((conn, side))
    }

    pub(crate) fn send_now(&mut self, fd: Number, bytes: &[u8]) -> Result<usize, Errno> {
        let (conn, side) = self.connection_of(fd)?;
        self.record(Entry::SentNow { fd, bytes: bytes_hash(bytes) });
        let sent = self.push(conn, side, bytes).ok_or(Errno::AGAIN)?.result?;
        Ok(sent as usize)
    }

    /// A short send ends it, as in the kernel.
    pub(crate) fn send_vectored_now(&mut self, fd: Number, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.send_now(fd, &bytes)
    }

    pub(crate) fn shutdown_now(&mut self, fd: Number, how: Shutdown) -> Result<(), Errno> {
        let (conn, side) = self.connection_of(fd)?;
        self.shut_down(conn, side, how).result.map(|_| ())
    }

    pub(crate) fn discard_now(&mut self, fd: Number, bytes_max: usize) -> Result<usize, Errno> {
        let (conn, side) = self.connection_of(fd)?;
        let mut view = self.view(conn, side);
        let len = view.inward.arrived().min(bytes_max);
        if len == 0 {
            return match view.take_error() {
                Some(errno) => Err(errno),
                None if view.ended() => Ok(0),
                None => Err(Errno::AGAIN),
            };
        }
        drop(view.inward.take(len));
        self.transmit(conn, 1 - side);
        self.changed(conn);
        Ok(len)
    }

    pub(crate) fn receive_now(
        &mut self,
        fd: Number,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        let room = leases.iter().flatten().map(Lease::spare_capacity).sum::<usize>();
        let bytes = self.take_now(fd, room.min(bytes_max))?;
        let mut rest = &bytes[..];
        for lease in leases.iter_mut().flatten() {
            rest = &rest[lease.extend(rest)..];
        }
        Ok(bytes.len())
    }

    pub(crate) fn read_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        let bytes = self.take_now(fd, room.len())?;
        room[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// What is there of so many bytes; none at the end of the stream.
    fn take_now(&mut self, fd: Number, bytes_max: usize) -> Result<Vec<u8>, Errno> {
        let (conn, side) = self.connection_of(fd)?;
        let mut view = self.view(conn, side);
        let mut len = view.inward.arrived().min(bytes_max);
        if len == 0 {
            return match view.take_error() {
                Some(errno) => Err(errno),
                None if view.ended() => Ok(Vec::new()),
                None => Err(Errno::AGAIN),
            };
        }
        if len > 1 && self.fault(Fault::ShortReceive) {
            len = self.rng.part(len);
        }
        let bytes = self.view(conn, side).inward.take(len);
        self.record(Entry::ReceivedNow { fd, bytes: bytes_hash(&bytes) });
        self.transmit(conn, 1 - side);
        self.changed(conn);
        Ok(bytes)
    }

    pub(crate) fn peek_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        let (conn, side) = self.connection_of(fd)?;
        let mut view = self.view(conn, side);
        match view.inward.peek(room) {
            0 => match view.take_error() {
                Some(errno) => Err(errno),
                None if view.ended() => Ok(0),
                None => Err(Errno::AGAIN),
            },
            seen => Ok(seen),
        }
    }

    pub(crate) fn is_readable_now(&mut self, fd: Number) -> bool {
        let Some(descriptor) = self.descriptors.get(fd) else { return true };
        match &descriptor.object {
            Object::Listener(listener) => !listener.queue.is_empty(),
            Object::File(_) => true,
            Object::Socket(Socket { state: SocketState::Connected { conn, side }, .. }) => {
                let (conn, side) = (*conn, *side);
                self.view(conn, side).is_ready(Interest::Readable, None)
            }
            Object::Socket(Socket { state, .. }) => !matches!(state, SocketState::Connecting(_)),
        }
    }

    pub(crate) fn is_gone_now(&mut self, fd: Number) -> bool {
        match self.descriptors.get(fd).map(|descriptor| &descriptor.object) {
            Some(Object::Socket(Socket { state: SocketState::Connected { conn, side }, .. })) => {
                let (conn, side) = (*conn, *side);
                self.view(conn, side).is_gone()
            }
            Some(Object::Socket(Socket { state, .. })) => !matches!(state, SocketState::Connecting(_)),
            Some(Object::Listener(_) | Object::File(_)) => false,
            None => true,
        }
    }

    fn shut_down(&mut self, conn: u64, side: usize, how: Shutdown) -> Outcome {
        let view = self.view(conn, side);
        if view.end.life != Life::Live {
            return Outcome::error(libc::ENOTCONN);
        }
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            view.end.receiving = Receiving::Shut;
        }
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            view.outward.finish();
            self.transmit(conn, side);
        }
        self.changed(conn);
        Outcome::new(Ok(0))
    }

    pub(crate) fn local_address(&self, fd: Number) -> Result<Address, Errno> {
        let descriptor = self.descriptors.get(fd).ok_or(Errno(libc::EBADF))?;
        match &descriptor.object {
            Object::Listener(listener) => Ok(listener.address),
            Object::File(_) => Err(Errno(libc::ENOTSOCK)),
            Object::Socket(socket) => Ok(match self.end_of(socket) {
                Some(end) => end.local,
                None => match socket.kind {
                    SocketKind::Tcp4 => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into(),
                    SocketKind::Tcp6 => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into(),
                    SocketKind::Unix => UnixAddress::UNNAMED.into(),
                },
            }),
        }
    }

    pub(crate) fn peer_address(&self, fd: Number) -> Result<Address, Errno> {
        let descriptor = self.descriptors.get(fd).ok_or(Errno(libc::EBADF))?;
        match &descriptor.object {
            Object::Listener(_) => Err(Errno(libc::ENOTCONN)),
            Object::File(_) => Err(Errno(libc::ENOTSOCK)),
            Object::Socket(socket) => match (socket.state, self.end_of(socket)) {
                (SocketState::Connected { .. }, Some(end)) if end.life == Life::Live => Ok(end.peer),
                _ => Err(Errno(libc::ENOTCONN)),
            },
        }
    }

    fn end_of(&self, socket: &Socket) -> Option<&End> {
        match socket.state {
            SocketState::Connecting(conn) => self.network.conn(conn).map(|conn| &conn.ends[0]),
            SocketState::Connected { conn, side } => self.network.conn(conn).map(|conn| &conn.ends[side]),
            SocketState::Fresh | SocketState::Failed(_) => None,
        }
    }

    pub(crate) fn set_option(&mut self, fd: Number, option: SocketOption) -> Result<(), Errno> {
        let descriptor = self.descriptors.get_mut(fd).ok_or(Errno(libc::EBADF))?;
        let socket = match &mut descriptor.object {
            Object::Socket(socket) => socket,
            Object::Listener(_) => return Ok(()),
            Object::File(_) => return Err(Errno(libc::ENOTSOCK)),
        };
        if socket.kind == SocketKind::Unix && option.is_of_tcp() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        match option {
            // Segments leave at once here, and idle connections are not probed.
            SocketOption::NoDelay(_) | SocketOption::KeepAlive(_) => {}
            SocketOption::Linger(linger) => socket.options.linger = linger,
            SocketOption::ReceiveBuffer(bytes) => {
                socket.options.receive_buffer = Some(bytes.max(SOCKET_BUFFER_BYTES_MIN))
            }
            SocketOption::SendBuffer(bytes) => socket.options.send_buffer = Some(bytes.max(SOCKET_BUFFER_BYTES_MIN)),
            SocketOption::NotSentLowWater(bytes) => socket.options.not_sent_low_water = Some(bytes),
            SocketOption::UserTimeout(timeout) => socket.options.user_timeout = Some(timeout),
        }
        self.apply_options(fd);
        Ok(())
    }

    /// Brings what was set on a socket to its connection.
    pub(crate) fn apply_options(&mut self, fd: Number) {
        let Some(Object::Socket(socket)) = self.descriptors.get(fd).map(|found| &found.object) else { return };
        let SocketState::Connected { conn, side } = socket.state else { return };
        let options = socket.options;
        let view = self.view(conn, side);
        if let Some(bytes) = options.receive_buffer {
            view.inward.receive_max = bytes as usize;
        }
        if let Some(bytes) = options.send_buffer {
            view.outward.send_max = bytes as usize;
        }
        view.end.user_timeout = match options.user_timeout {
            Some(timeout) if !timeout.is_zero() => nanos(timeout),
            _ => USER_TIMEOUT_NS,
        };
        self.transmit(conn, 1 - side);
        self.wake(fd);
    }
}
