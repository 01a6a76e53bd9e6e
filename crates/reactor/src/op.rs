//! Operations and completions: what goes down to the kernel and what comes back.
//!
//! # The life of an operation
//!
//! 1. The owner builds an [`Op`] and hands it to [`Driver::submit`](crate::Driver::submit). The driver places it, with
//!    everything the kernel may touch (its lease), in an **operation slot** and answers with the slot's key.
//! 2. The backend starts it. From here on the slot is **in flight**: neither the slot nor the lease moves or is freed.
//! 3. The owner may [`cancel`](crate::Driver::cancel) it (and still gets the completion, usually `ECANCELED`), or
//!    [`orphan`](crate::Driver::orphan) it: cancel, and nobody wants the answer.
//! 4. Its last completion comes. The slot is freed, and what it held becomes the [`Completion`]'s [`Payload`]; for an
//!    orphan it is disposed of instead: a lease is released, an accepted or opened descriptor is closed, received bytes
//!    are recycled.
//!
//! ```text
//!  submit -> in flight --------------------> last completion -> Completion to the owner
//!               |  \-- cancel -> cancelling ------^
//!               \----- orphan -> orphaned -------> last completion -> disposed of
//! ```
//!
//! # Threads
//!
//! An operation on a socket never takes a thread, on any driver: it waits as an entry of the driver, whatever the peer
//! does. Operations of files may have to wait for a disk, which no file can be polled for. On epoll they run on the
//! threads of the [`Blocking`](crate::Blocking) pool. On io_uring the kernel does at once what it can (reads of cached
//! pages, most writes), and the rest on worker threads of its own, `iou-wrk-*`: at most four for each thread that has a
//! driver, and one more for pipes and terminals that are used as files. They have a kernel stack (16 KiB) that no
//! budget counts, and end after 5 s without work. An open of a pipe that nobody writes to keeps one of them until it is
//! cancelled.
//!
//! Urgent data (`MSG_OOB`) is not part of the stream, on any driver: a byte that is urgent is dropped, as Linux does by
//! default (tcp(7)). A receive stops before it, and on io_uring an [`Op::Receive`] brings what had come behind it
//! together with what comes next, or with the end: to find out whether there is an urgent byte would cost every receive
//! of every connection a call.
#![forbid(unsafe_code)]

use core::fmt;

use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use crate::fd::{Life, Number};
use crate::{Fd, FdRef, Received, SharedBytes};

/// What the owner of an operation gave along to recognise its completion; the driver does not look into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u32);

/// Which half of a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// No more receiving.
    Read,
    /// No more sending: the peer sees end-of-file after the bytes sent so far.
    Write,
    /// Both.
    Both,
}

/// What a [`Op::Poll`] waits for; hang-up and errors end every poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes (or a connection, or end-of-file) can be received.
    Readable,
    /// Bytes can be sent.
    Writable,
    /// The peer has ended its half, or the connection is gone: tells of end-of-file without reading what is before it.
    PeerClosed,
}

/// Bytes on their way out, from the front. Its `Debug` tells how many, not which.
pub enum SendBytes {
    /// The visible bytes of a lease.
    Lease(Lease),
    /// Bytes that live for ever.
    Static(&'static [u8]),
    /// Bytes that other sends read too.
    Shared(SharedBytes),
}

impl fmt::Debug for SendBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self {
            Self::Lease(_) => "Lease",
            Self::Static(_) => "Static",
            Self::Shared(_) => "Shared",
        };
        write!(f, "{owner}({} bytes)", self.as_slice().len())
    }
}

impl SendBytes {
    /// The bytes still to be sent.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Lease(lease) => lease,
            Self::Static(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// Drops the first `sent` bytes, which the socket has taken.
    ///
    /// # Panics
    ///
    /// When `sent` is more than is left.
    #[inline]
    pub fn consume(&mut self, sent: usize) {
        match self {
            Self::Lease(lease) => lease.consume(sent),
            Self::Static(bytes) => *bytes = &bytes[sent..],
            Self::Shared(bytes) => bytes.consume(sent),
        }
    }

    /// Address and length of what is to be sent, for a backend.
    pub(crate) fn raw_parts(&self) -> (*const u8, usize) {
        let bytes = self.as_slice();
        debug_assert!(!bytes.is_empty(), "an empty send never reaches a backend");
        (bytes.as_ptr(), bytes.len())
    }

    /// Whether nothing is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// One operation. Every variant is answered by exactly one [`Completion`], whose `result` and `payload` are as stated
/// here.
#[derive(Debug)]
pub enum Op<'fd> {
    /// Waits for one connection on a listener. `Ok(0)` with [`Payload::Fd`].
    Accept {
        /// A listening socket of [`Driver::listen`](crate::Driver::listen).
        listener: FdRef<'fd>,
    },
    /// Receives what is there, at most [`RECEIVE_BYTES_MAX`](crate::RECEIVE_BYTES_MAX), without a buffer of its own
    /// while it waits. `Ok(n)` with [`Payload::Received`]; `Ok(0)` with [`Payload::None`] at end-of-file.
    ///
    /// For connected TCP sockets. There, a receive that brings less than it had room for has brought everything, and
    /// drivers rely on it: the next receive waits for the kernel to tell of more. It does not hold where one call stops
    /// before the end of what is there. A datagram is one such end, so sockets of datagrams or records need
    /// [`Poll`](Self::Poll) and a call of their own; so is, on a stream, the mark of urgent data (`MSG_OOB`, RFC 6093
    /// §3): what a peer sends behind one that nobody has read is received with whatever it sends next. No protocol here
    /// uses it, and a peer that does so delays itself.
    Receive {
        /// A connected TCP socket.
        fd: FdRef<'fd>,
    },
    /// Receives into the spare room of a lease (not empty). `Ok(n)` with the lease, `n` bytes longer; `Ok(0)` at
    /// end-of-file.
    ReceiveInto {
        /// A connected socket.
        fd: FdRef<'fd>,
        /// Where the bytes go, behind those it shows.
        lease: Lease,
    },
    /// Sends bytes (not empty). `Ok(n)`: the socket took the first `n`, which have been consumed; [`Payload::Sent`] is
    /// the rest.
    Send {
        /// A connected socket.
        fd: FdRef<'fd>,
        /// What to send.
        bytes: SendBytes,
    },
    /// Connects to the socket address in the lease (see [`Driver::address`](crate::Driver::address)). `Ok(0)`.
    Connect {
        /// A fresh socket of [`Driver::socket`](crate::Driver::socket).
        fd: FdRef<'fd>,
        /// The address in the system's form.
        address: Lease,
    },
    /// Ends a half of a connection, or both. `Ok(0)`; `ECANCELED` when the descriptor is closed before it is done,
    /// which ends both halves.
    Shutdown {
        /// A connected socket.
        fd: FdRef<'fd>,
        /// Which half.
        how: Shutdown,
    },
    /// Closes a descriptor. What is in flight on it is best cancelled or given up before, accepts and receives in any
    /// case, which builds with debug assertions check on io_uring: what the kernel has there keeps the file open until
    /// it ends. What has still to be done on the descriptor after its close, as a send for which there was no room,
    /// ends with `ECANCELED` on all drivers: at once, or when it would have gone on; none acts on another file that has
    /// got the number. `Ok(0)`.
    Close {
        /// The descriptor.
        fd: Fd,
    },
    /// Waits for readiness. `Ok(0)`.
    Poll {
        /// Any descriptor that can be polled.
        fd: FdRef<'fd>,
        /// What to wait for.
        interest: Interest,
    },
    /// Opens a file. `Ok(0)` with [`Payload::Fd`]. The path ends with its only NUL.
    Open {
        /// The path, its NUL included.
        path: Lease,
        /// `O_*` flags; `O_CLOEXEC` is always added, and `O_NONBLOCK` holds for the opening alone: a FIFO or device is
        /// not waited for, and what is read and written afterwards waits as ever.
        flags: i32,
        /// Permission bits of a file that is created.
        mode: u32,
    },
    /// Reads a descriptor's metadata (`statx` with an empty path) into a lease of at least 256 spare bytes. `Ok(256)`
    /// with the lease.
    Stat {
        /// An open descriptor, `O_PATH` allowed.
        fd: FdRef<'fd>,
        /// Where the 256 bytes of `struct statx` go.
        lease: Lease,
    },
    /// Reads at an offset into the spare room of a lease (not empty). `Ok(n)` with the lease, `n` bytes longer; `Ok(0)`
    /// at end-of-file.
    ReadAt {
        /// An open file.
        fd: FdRef<'fd>,
        /// Where the bytes go.
        lease: Lease,
        /// From the start of the file, in bytes.
        offset: u64,
    },
    /// Writes the visible bytes of a lease at an offset. `Ok(n)`, may be short; the lease comes back unchanged.
    WriteAt {
        /// An open file.
        fd: FdRef<'fd>,
        /// What to write.
        lease: Lease,
        /// From the start of the file, in bytes.
        offset: u64,
    },
    /// Makes a file's data (and metadata, unless `data_only`) durable. `Ok(0)`.
    Fsync {
        /// An open file.
        fd: FdRef<'fd>,
        /// `fdatasync` instead of `fsync`.
        data_only: bool,
    },
}

impl<'fd> Op<'fd> {
    /// The operation's name, for messages and traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Accept { .. } => "accept",
            Self::Receive { .. } => "receive",
            Self::ReceiveInto { .. } => "receive_into",
            Self::Send { .. } => "send",
            Self::Connect { .. } => "connect",
            Self::Shutdown { .. } => "shutdown",
            Self::Close { .. } => "close",
            Self::Poll { .. } => "poll",
            Self::Open { .. } => "open",
            Self::Stat { .. } => "stat",
            Self::ReadAt { .. } => "read_at",
            Self::WriteAt { .. } => "write_at",
            Self::Fsync { .. } => "fsync",
        }
    }

    /// The descriptor it works on, if it has one.
    pub const fn descriptor(&self) -> Option<FdRef<'_>> {
        match self {
            Self::Accept { listener: fd }
            | Self::Receive { fd }
            | Self::ReceiveInto { fd, .. }
            | Self::Send { fd, .. }
            | Self::Connect { fd, .. }
            | Self::Shutdown { fd, .. }
            | Self::Poll { fd, .. }
            | Self::Stat { fd, .. }
            | Self::ReadAt { fd, .. }
            | Self::WriteAt { fd, .. }
            | Self::Fsync { fd, .. } => Some(*fd),
            Self::Close { fd } => Some(fd.at()),
            Self::Open { .. } => None,
        }
    }

    /// The same, for the time that it is in flight.
    pub(crate) fn number(&self) -> Option<Number> {
        self.descriptor().map(FdRef::detached)
    }

    /// Notes which life of its descriptor it belongs to. A close is not done by its number later.
    pub(crate) fn set_life(&mut self, life: Life) {
        match self {
            Self::Accept { listener: fd }
            | Self::Receive { fd }
            | Self::ReceiveInto { fd, .. }
            | Self::Send { fd, .. }
            | Self::Connect { fd, .. }
            | Self::Shutdown { fd, .. }
            | Self::Poll { fd, .. }
            | Self::Stat { fd, .. }
            | Self::ReadAt { fd, .. }
            | Self::WriteAt { fd, .. }
            | Self::Fsync { fd, .. } => fd.set_life(life),
            Self::Close { .. } | Self::Open { .. } => {}
        }
    }

    /// The operation as it is in its slot.
    #[inline]
    pub(crate) fn detached(self) -> Op<'static> {
        match self {
            Self::Accept { listener } => Op::Accept { listener: listener.detached() },
            Self::Receive { fd } => Op::Receive { fd: fd.detached() },
            Self::ReceiveInto { fd, lease } => Op::ReceiveInto { fd: fd.detached(), lease },
            Self::Send { fd, bytes } => Op::Send { fd: fd.detached(), bytes },
            Self::Connect { fd, address } => Op::Connect { fd: fd.detached(), address },
            Self::Shutdown { fd, how } => Op::Shutdown { fd: fd.detached(), how },
            Self::Close { fd } => Op::Close { fd },
            Self::Poll { fd, interest } => Op::Poll { fd: fd.detached(), interest },
            Self::Open { path, flags, mode } => Op::Open { path, flags, mode },
            Self::Stat { fd, lease } => Op::Stat { fd: fd.detached(), lease },
            Self::ReadAt { fd, lease, offset } => Op::ReadAt { fd: fd.detached(), lease, offset },
            Self::WriteAt { fd, lease, offset } => Op::WriteAt { fd: fd.detached(), lease, offset },
            Self::Fsync { fd, data_only } => Op::Fsync { fd: fd.detached(), data_only },
        }
    }

    /// The lease that the kernel may touch while the operation is in flight.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::ReceiveInto { lease, .. }
            | Self::Stat { lease, .. }
            | Self::ReadAt { lease, .. }
            | Self::WriteAt { lease, .. }
            | Self::Connect { address: lease, .. }
            | Self::Open { path: lease, .. } => Some(lease),
            Self::Send { bytes: SendBytes::Lease(lease), .. } => Some(lease),
            Self::Accept { .. }
            | Self::Receive { .. }
            | Self::Send { .. }
            | Self::Shutdown { .. }
            | Self::Close { .. }
            | Self::Poll { .. }
            | Self::Fsync { .. } => None,
        }
    }
}

/// The answer to one [`Op`].
#[derive(Debug)]
pub struct Completion {
    /// As given to [`Driver::submit`](crate::Driver::submit).
    pub token: Token,
    /// As answered by [`Driver::submit`](crate::Driver::submit); the slot is free by now.
    pub key: Key,
    /// A count, as stated at each [`Op`], or the system's error.
    pub result: Result<u32, Errno>,
    /// What the operation held or brought.
    pub payload: Payload,
}

/// What comes along with a [`Completion`].
#[derive(Debug)]
pub enum Payload {
    /// Nothing.
    None,
    /// Received bytes, borrowed from the driver: copy what must stay and drop it in the same turn.
    Received(Received),
    /// The operation's lease, also when it failed.
    Lease(Lease),
    /// What the socket did not take of a send, also when it failed.
    Sent(SendBytes),
    /// A new descriptor, the owner's to close.
    Fd(Fd),
}

/// An error number of the system.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The operation was cancelled.
    pub const CANCELED: Self = Self(libc::ECANCELED);
    /// No buffer was left; a driver never says so to the owner of a receive.
    pub const NOBUFS: Self = Self(libc::ENOBUFS);
    /// Nothing can be done now without waiting.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// It is a socket, or an address, of another family.
    pub const AFNOSUPPORT: Self = Self(libc::EAFNOSUPPORT);
    /// That cannot be done with what it is asked of.
    pub const OPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// The peer broke the rules of a transport.
    pub const PROTO: Self = Self(libc::EPROTO);
    /// An argument is none that can be meant.
    pub const INVAL: Self = Self(libc::EINVAL);
    /// The peer has reset the connection.
    pub const CONNRESET: Self = Self(libc::ECONNRESET);
    /// Nothing is there.
    pub const NOENT: Self = Self(libc::ENOENT);
    /// A part of a path is no directory.
    pub const NOTDIR: Self = Self(libc::ENOTDIR);
    /// Permissions forbid it.
    pub const ACCES: Self = Self(libc::EACCES);
    /// It is not allowed at all.
    pub const PERM: Self = Self(libc::EPERM);
    /// A name is longer than names may be.
    pub const NAMETOOLONG: Self = Self(libc::ENAMETOOLONG);
    /// Symbolic links lead to each other.
    pub const LOOP: Self = Self(libc::ELOOP);
    /// What is there cannot be opened: a socket, a device that is missing.
    pub const NXIO: Self = Self(libc::ENXIO);
    /// This process has as many descriptors as it may.
    pub const MFILE: Self = Self(libc::EMFILE);
    /// The system has as many files open as it may.
    pub const NFILE: Self = Self(libc::ENFILE);
    /// The system has no memory for it.
    pub const NOMEM: Self = Self(libc::ENOMEM);

    /// From the last failed call of this thread.
    pub fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Its symbolic name, such as `EPERM`; `None` for numbers that this crate has no name for.
    ///
    /// ```
    /// use plimsoll_reactor::Errno;
    ///
    /// assert_eq!(Errno(1).name(), Some("EPERM"));
    /// ```
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            libc::EPERM => "EPERM",
            libc::ENOENT => "ENOENT",
            libc::EINTR => "EINTR",
            libc::EIO => "EIO",
            libc::EBADF => "EBADF",
            libc::EAGAIN => "EAGAIN",
            libc::ENOMEM => "ENOMEM",
            libc::EACCES => "EACCES",
            libc::EFAULT => "EFAULT",
            libc::EBUSY => "EBUSY",
            libc::EEXIST => "EEXIST",
            libc::EINVAL => "EINVAL",
            libc::ENFILE => "ENFILE",
            libc::EMFILE => "EMFILE",
            libc::EPIPE => "EPIPE",
            libc::ENOSYS => "ENOSYS",
            libc::ETIME => "ETIME",
            libc::EPROTO => "EPROTO",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            libc::EADDRINUSE => "EADDRINUSE",
            libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
            libc::ECONNABORTED => "ECONNABORTED",
            libc::ECONNRESET => "ECONNRESET",
            libc::ENOBUFS => "ENOBUFS",
            libc::ENOTCONN => "ENOTCONN",
            libc::ETIMEDOUT => "ETIMEDOUT",
            libc::ECONNREFUSED => "ECONNREFUSED",
            libc::ECANCELED => "ECANCELED",
            _ => return None,
        })
    }

    /// Whether accepting may simply go on after this error of an accept: it concerns one connection, or passes.
    pub const fn is_transient_accept(self) -> bool {
        matches!(
            self.0,
            libc::ECONNABORTED
                | libc::EMFILE
                | libc::ENFILE
                | libc::ENOMEM
                | libc::ENOBUFS
                | libc::EINTR
                | libc::EAGAIN
                | libc::EPROTO
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENOPROTOOPT
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
        )
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&std::io::Error::from_raw_os_error(self.0), f)
    }
}

impl core::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.0)
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

const _: () = assert!(size_of::<Op<'static>>() <= 32, "an operation fits half a cache line");
