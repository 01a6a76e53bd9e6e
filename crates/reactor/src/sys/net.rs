//! Sockets. No call here waits: sends and receives say `MSG_DONTWAIT`, also on blocking sockets.
//!
//! **I-SLICE**: the kernel touches only the memory of the slices handed over, and only within the call.
//!
//! **I-NUMBER**: no [`Number`] is the -1 that a borrowed descriptor must not be: it is not negative, or far below for a
//! simulated kernel. Whether it is still open is its owner's business; on a number that is not, every call here answers
//! `EBADF` and touches no memory.
//!
//! **I-STARTED**: descriptors that the environment names were opened for this process before it began, by whoever has
//! started it. They are nobody's until they are taken: once for the process, and each named once.
//!
//! **I-WRITTEN**: a receive into several rooms that answers `n` has written the first `n` bytes of them, in their order
//! (recvmsg(2), readv(2)).
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::time::Duration;
use std::ffi::OsStr;
use std::io::{ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;

use plimsoll_pool::Lease;
use socket2::{Domain, MaybeUninitSlice, Protocol, SockAddr, SockFilter, SockRef, Socket, TcpKeepalive, Type};

use super::retry;
use crate::fd::Number;
use crate::{Address, Errno, Error, ListenOptions, Shutdown, SocketKind, SocketOption, UnixAddress};

/// Rooms of one receive at most.
pub(crate) const SCATTERED_MAX: usize = 8;
/// Bytes that are dropped by copying them, on the stack, in one call.
const DISCARDED_AT_ONCE: usize = 4_096;

/// A listening stream socket, close-on-exec. For what the options mean see [`ListenOptions`].
pub(crate) fn listen(address: Address, options: &ListenOptions, nonblocking: bool) -> Result<Number, Error> {
    assert!((1..=65_535).contains(&options.backlog), "a backlog of 1 to 65,535");
    let refused = |error: std::io::Error| match Errno::from(error) {
        Errno(libc::EADDRINUSE) => Error::AddressInUse(Box::new(address)),
        Errno(libc::EACCES | libc::EPERM) => Error::AddressForbidden(Box::new(address)),
        Errno(libc::EADDRNOTAVAIL | libc::ENOENT | libc::ENOTDIR) => Error::AddressNotAvailable(Box::new(address)),
        errno => Error::system("listen", errno),
    };
    let bound = match address {
        Address::Ip(address) => bind_internet(address, options, nonblocking),
        Address::Unix(address) => bind_unix(&address, nonblocking),
    };
    let socket = bound.map_err(refused)?;
    socket.listen(options.backlog as i32).map_err(refused)?;
    Ok(Number::from_raw(socket.into_raw_fd()))
}

fn bind_internet(address: SocketAddr, options: &ListenOptions, nonblocking: bool) -> std::io::Result<Socket> {
    let bind = |reuse_port: bool| {
        let socket = stream(Domain::for_address(address), nonblocking)?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(reuse_port)?;
        socket.bind(&SockAddr::from(address))?;
        Ok(socket)
    };
    let shares = options.reuse_port || options.join;
    if shares && !options.join && address.port() != 0 {
        // With SO_REUSEPORT a second process of the same user would bind without a word.
        drop::<Socket>(bind(false)?);
    }
    bind(shares)
}

/// A socket file that nobody listens at any more, of a process that has ended, makes way.
fn bind_unix(address: &UnixAddress, nonblocking: bool) -> std::io::Result<Socket> {
    let name = SockAddr::unix(OsStr::from_bytes(address.name()))?;
    let socket = stream(Domain::UNIX, nonblocking)?;
    let Err(error) = socket.bind(&name) else { return Ok(socket) };
    let Some(path) = address.as_path().filter(|_| error.kind() == ErrorKind::AddrInUse) else { return Err(error) };
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    // Without a wait: a queue that is full is somebody's.
    let listens = |error: &std::io::Error| error.kind() != ErrorKind::ConnectionRefused;
    if !is_socket || stream(Domain::UNIX, true)?.connect(&name).as_ref().err().is_none_or(listens) {
        return Err(error);
    }
    std::fs::remove_file(path)?;
    socket.bind(&name)?;
    Ok(socket)
}

/// Another descriptor of the same socket, close-on-exec.
pub(crate) fn duplicate(fd: Number) -> Result<OwnedFd, Errno> {
    with_socket(fd, |socket| socket.as_fd().try_clone_to_owned())
}

/// A socket that this process was started with, close-on-exec from now on. It keeps its number: a duplicate could take
/// one that the environment names wrongly.
pub(crate) fn inherit(number: i32) -> Result<OwnedFd, Errno> {
    with_socket(Number::from_raw(number), Socket::r#type)?;
    // SAFETY: I-STARTED: it is open, as the call before has shown, and nobody's.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(number) });
    socket.set_cloexec(true)?;
    Ok(socket.into())
}

/// Lets programs that this process starts have the descriptor.
pub(crate) fn inheritable(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    let socket = Socket::from(fd);
    socket.set_cloexec(false)?;
    Ok(socket.into())
}

/// Whether it is a stream socket that listens; it does not block from now on.
pub(crate) fn check_listens(socket: &OwnedFd) -> Result<(), Errno> {
    let socket = SockRef::from(socket);
    if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        return Err(Errno(libc::EINVAL));
    }
    Ok(socket.set_nonblocking(true)?)
}

/// A fresh stream socket, close-on-exec.
pub(crate) fn socket(kind: SocketKind, nonblocking: bool) -> Result<Number, Errno> {
    let domain = match kind {
        SocketKind::Tcp4 => Domain::IPV4,
        SocketKind::Tcp6 => Domain::IPV6,
        SocketKind::Unix => Domain::UNIX,
    };
    Ok(Number::from_raw(stream(domain, nonblocking)?.into_raw_fd()))
}

fn stream(domain: Domain, nonblocking: bool) -> std::io::Result<Socket> {
    let plain = Type::STREAM.cloexec();
    let kind = if nonblocking { plain.nonblocking() } else { plain };
    Socket::new_raw(domain, kind, (domain != Domain::UNIX).then_some(Protocol::TCP))
}

/// The next connection that waits on a (non-blocking) listener, close-on-exec; `None` if none does.
pub(crate) fn accept(listener: Number, nonblocking: bool) -> Result<Option<Number>, Errno> {
    let flags = libc::SOCK_CLOEXEC | if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    let no_address = core::ptr::null_mut();
    let no_len = core::ptr::null_mut();
    // SAFETY: I-SLICE: no memory is handed over: the address is not asked for.
    let accept = || unsafe { libc::accept4(listener.raw(), no_address, no_len, flags) };
    match retry(|| accept() as isize) {
        Ok(fd) => Ok(Some(Number::from_raw(fd as i32))),
        Err(Errno(libc::EAGAIN)) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Connects to an address in the system's form. `EINPROGRESS` on a non-blocking socket: wait until it is writable, then
/// ask [`socket_error`].
pub(crate) fn connect(fd: Number, address: &[u8]) -> Result<(), Errno> {
    let len = address.len() as libc::socklen_t;
    // SAFETY: I-SLICE: the kernel copies the address, so its alignment does not matter.
    let connect = || unsafe { libc::connect(fd.raw(), address.as_ptr().cast(), len) };
    match retry(|| connect() as isize) {
        // An interrupted connect goes on in the background; asked again it says EALREADY, which means the same as
        // EINPROGRESS.
        Ok(_) => Ok(()),
        Err(Errno(libc::EALREADY)) => Err(Errno(libc::EINPROGRESS)),
        Err(errno) => Err(errno),
    }
}

/// The socket's pending error, which this takes away.
pub(crate) fn socket_error(fd: Number) -> Result<(), Errno> {
    match with_socket(fd, Socket::take_error)? {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

/// Receives what is there without waiting; `Ok(0)` at end-of-file.
pub(crate) fn receive(fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: I-SLICE.
    let received = retry(|| unsafe { libc::recv(fd.raw(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) })?;
    debug_assert!(received <= room.len());
    Ok(received)
}

/// Copies what is there without taking it; `Ok(0)` at end-of-file.
pub(crate) fn peek(fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: I-SLICE.
    let seen = retry(|| unsafe { libc::recv(fd.raw(), room.as_mut_ptr().cast(), room.len(), flags) })?;
    debug_assert!(seen <= room.len());
    Ok(seen)
}

/// Like [`receive`], into fresh memory: the first so many bytes of `room` are initialised afterwards.
pub(crate) fn receive_into(fd: Number, room: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
    // SAFETY: I-SLICE.
    let received = retry(|| unsafe { libc::recv(fd.raw(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) })?;
    debug_assert!(received <= room.len());
    Ok(received)
}

/// Receives what is there without waiting, at most `bytes_max` bytes, into the spare rooms of leases: each is filled
/// before the next one is begun. How many there were, by which the leases are longer; `Ok(0)` at end-of-file.
pub(crate) fn receive_scattered(fd: Number, leases: &mut [Option<Lease>], bytes_max: usize) -> Result<usize, Errno> {
    if let [Some(lease)] = leases {
        let spare = lease.spare_mut();
        let taken = spare.len().min(bytes_max);
        let received = receive_into(fd, &mut spare[..taken])?;
        // SAFETY: I-WRITTEN.
        unsafe { lease.advance_written(received) };
        return Ok(received);
    }
    let mut room_bytes = bytes_max;
    let mut spares = leases.iter_mut().flatten().map(Lease::spare_mut);
    let mut rooms: [MaybeUninitSlice<'_>; SCATTERED_MAX] = core::array::from_fn(|_| {
        let spare = spares.next().unwrap_or_default();
        let taken = spare.len().min(room_bytes);
        room_bytes -= taken;
        MaybeUninitSlice::new(&mut spare[..taken])
    });
    let used = rooms.iter().rposition(|room| !room.is_empty()).map_or(0, |last| last + 1);
    let received = loop {
        let call = |socket: &Socket| socket.recv_vectored_with_flags(&mut rooms[..used], libc::MSG_DONTWAIT);
        match with_socket(fd, call) {
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(errno),
            Ok((received, _)) => break received,
        }
    };
    let mut left = received;
    for lease in leases.iter_mut().flatten() {
        let written = left.min(lease.spare_capacity());
        // SAFETY: I-WRITTEN.
        unsafe { lease.advance_written(written) };
        left -= written;
    }
    debug_assert_eq!(left, 0, "no more than there was room for");
    Ok(received)
}

/// Sends what the socket takes without waiting, and without a SIGPIPE.
pub(crate) fn send(fd: Number, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: I-SLICE.
    let sent = retry(|| unsafe { libc::send(fd.raw(), bytes.as_ptr().cast(), bytes.len(), flags) })?;
    debug_assert!(sent <= bytes.len());
    Ok(sent)
}

/// The same from several slices, in their order.
pub(crate) fn send_vectored(fd: Number, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        match with_socket(fd, |socket| socket.send_vectored_with_flags(slices, flags)) {
            Err(Errno(libc::EINTR)) => {}
            sent => return sent,
        }
    }
}

/// Drops received bytes, those of TCP without copying them (tcp(7): `MSG_TRUNC`); `Ok(0)` at end-of-file.
pub(crate) fn discard(fd: Number, bytes_max: usize) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: I-SLICE: no memory is handed over: with this flag the kernel writes no byte of a TCP stream, and finds no
    // memory at the null address for those of another.
    match retry(|| unsafe { libc::recv(fd.raw(), core::ptr::null_mut(), bytes_max, flags) }) {
        Ok(dropped) => {
            debug_assert!(dropped <= bytes_max);
            Ok(dropped)
        }
        // The flag is TCP's alone. Nothing was taken.
        Err(Errno(libc::EFAULT)) => {
            let mut room = [MaybeUninit::uninit(); DISCARDED_AT_ONCE];
            let mut dropped = 0;
            loop {
                let bytes = (bytes_max - dropped).min(room.len());
                match receive_into(fd, &mut room[..bytes]) {
                    Ok(taken) if taken > 0 && dropped + taken < bytes_max => dropped += taken,
                    Err(_) if dropped > 0 => return Ok(dropped),
                    last => return last.map(|taken| dropped + taken),
                }
            }
        }
        Err(errno) => Err(errno),
    }
}

/// Has a listener take no further handshakes, while those that have begun may end: a filter drops segments that have
/// SYN and not ACK (RFC 9293 3.1: the flags are in the byte at 13). Connections that come out of it inherit the filter,
/// which means nothing to them.
pub(crate) fn refuse_connects(listener: Number) -> Result<(), Errno> {
    if let Address::Unix(_) = local_address(listener)? {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    let program = [
        SockFilter::new((libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16, 0, 0, FLAGS_AT),
        SockFilter::new((libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16, 0, 0, SYN | ACK),
        SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 1, SYN),
        SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0),
        SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX),
    ];
    with_socket(listener, |socket| socket.attach_filter(&program))
}

/// Ends a half of a connection, or both.
pub(crate) fn shutdown(fd: Number, how: Shutdown) -> Result<(), Errno> {
    let how = match how {
        Shutdown::Read => std::net::Shutdown::Read,
        Shutdown::Write => std::net::Shutdown::Write,
        Shutdown::Both => std::net::Shutdown::Both,
    };
    with_socket(fd, |socket| socket.shutdown(how))
}

/// Closes a descriptor. Not repeated when interrupted: Linux has closed it by then.
pub(crate) fn close(fd: Number) -> Result<(), Errno> {
    // SAFETY: I-NUMBER: the number is given up by its owner here; no memory is handed over.
    match unsafe { libc::close(fd.raw()) } {
        0 => Ok(()),
        _ => match Errno::last() {
            Errno(libc::EINTR) => Ok(()),
            errno => Err(errno),
        },
    }
}

/// Which of `events` (`POLLIN`, `POLLOUT`, `POLLRDHUP`), and of hang-up and error, hold right now.
pub(crate) fn poll_now(fd: Number, events: i16) -> Result<i16, Errno> {
    let mut entry = libc::pollfd { fd: fd.raw(), events, revents: 0 };
    // SAFETY: I-SLICE: one entry, on this stack frame.
    let ready = retry(|| unsafe { libc::poll(&mut entry, 1, 0) } as isize)?;
    debug_assert!(ready <= 1);
    if entry.revents & libc::POLLNVAL != 0 {
        return Err(Errno(libc::EBADF));
    }
    Ok(entry.revents)
}

/// The address a socket is bound to.
pub(crate) fn local_address(fd: Number) -> Result<Address, Errno> {
    with_socket(fd, Socket::local_addr).and_then(|address| read_address(&address))
}

/// The address of a socket's peer.
pub(crate) fn peer_address(fd: Number) -> Result<Address, Errno> {
    with_socket(fd, Socket::peer_addr).and_then(|address| read_address(&address))
}

fn read_address(address: &SockAddr) -> Result<Address, Errno> {
    let unix = || {
        let path = address.as_pathname().and_then(|path| UnixAddress::from_path(path).ok());
        let named = || UnixAddress::from_abstract_name(address.as_abstract_namespace()?).ok();
        path.or_else(named).or_else(|| address.is_unnamed().then_some(UnixAddress::UNNAMED))
    };
    let internet = address.as_socket().map(Address::Ip);
    internet.or_else(|| unix().map(Address::Unix)).ok_or(Errno(libc::EAFNOSUPPORT))
}

/// Sets an option.
pub(crate) fn set_option(fd: Number, option: SocketOption) -> Result<(), Errno> {
    with_socket(fd, |socket| match option {
        SocketOption::NoDelay(on) => socket.set_tcp_nodelay(on),
        SocketOption::KeepAlive(None) => socket.set_keepalive(false),
        SocketOption::KeepAlive(Some(idle)) => {
            let idle = whole_seconds(idle).max(Duration::from_secs(1));
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))
        }
        // A fraction of a second must not become the zero that resets the connection.
        SocketOption::Linger(linger) => socket.set_linger(linger.map(whole_seconds)),
        SocketOption::ReceiveBuffer(bytes) => socket.set_recv_buffer_size(bytes as usize),
        SocketOption::SendBuffer(bytes) => socket.set_send_buffer_size(bytes as usize),
        SocketOption::NotSentLowWater(bytes) => socket.set_tcp_notsent_lowat(bytes),
        SocketOption::UserTimeout(timeout) => socket.set_tcp_user_timeout(Some(timeout)),
    })
}

/// Rounds up to whole seconds.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0)))
}

fn with_socket<R>(fd: Number, call: impl FnOnce(&Socket) -> std::io::Result<R>) -> Result<R, Errno> {
    if fd.raw() < 0 {
        // Of a simulated kernel.
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: I-NUMBER: not -1, and borrowed for one call.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd.raw()) };
    Ok(call(&SockRef::from(&borrowed))?)
}
