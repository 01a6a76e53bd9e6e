//! What can go wrong in a simulated world, and how often.
#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fault {
    /// A receive brings fewer bytes than are there, down to one.
    ShortReceive,
    /// A send takes fewer bytes than there is room for, down to one.
    ShortSend,
    /// The network cuts bytes into small segments that arrive at different times.
    Segmented,
    /// `EINTR`: the operation is started again a little later; its owner sees only the delay.
    Interrupted,
    /// `ENOBUFS` on a receive: it queues for a buffer; its owner sees only the delay.
    NoBuffers,
    /// `ENOMEM` on an accept; the connection stays in the queue.
    AcceptNoMemory,
    /// `EMFILE` on an accept; the connection stays in the queue.
    AcceptNoDescriptors,
    /// `ENFILE` on an accept; the connection stays in the queue.
    AcceptTableFull,
    /// `ECONNABORTED` on an accept: the connection is gone.
    AcceptAborted,
    /// `EMFILE` for a fresh socket.
    SocketNoDescriptors,
    /// A connection is refused although somebody listens.
    Refused,
    /// A connection's link goes down: nothing gets through for a time, or (one time in four) for ever.
    BlackHole,
    /// A connection is reset in the middle of an operation, on both ends.
    Reset,
    /// A completion comes late, by up to [`Faults::delay_max`].
    Delayed,
    /// A completion comes a few hundred nanoseconds late, so that others of the same instant overtake it.
    Reordered,
    /// Only a part of the completions is seen in this turn, as after an overflow of the completion queue.
    Overflow,
    /// A cancellation takes effect late, so the operation may succeed first.
    LateCancel,
    /// `EIO` on a file operation.
    FileError,
    /// A file read brings fewer bytes than are there.
    ShortRead,
    /// A file write takes fewer bytes than it was given.
    ShortWrite,
    /// A file operation sits on a kernel worker for up to [`Faults::slow_max`] and cannot be cancelled.
    SlowFile,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 21] = [
        Self::ShortReceive,
        Self::ShortSend,
        Self::Segmented,
        Self::Interrupted,
        Self::NoBuffers,
        Self::AcceptNoMemory,
        Self::AcceptNoDescriptors,
        Self::AcceptTableFull,
        Self::AcceptAborted,
        Self::SocketNoDescriptors,
        Self::Refused,
        Self::BlackHole,
        Self::Reset,
        Self::Delayed,
        Self::Reordered,
        Self::Overflow,
        Self::LateCancel,
        Self::FileError,
        Self::ShortRead,
        Self::ShortWrite,
        Self::SlowFile,
    ];

    /// Its name, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShortReceive => "short receive",
            Self::ShortSend => "short send",
            Self::Segmented => "segmented",
            Self::Interrupted => "interrupted",
            Self::NoBuffers => "no buffers",
            Self::AcceptNoMemory => "accept: no memory",
            Self::AcceptNoDescriptors => "accept: no descriptors",
            Self::AcceptTableFull => "accept: table full",
            Self::AcceptAborted => "accept: aborted",
            Self::SocketNoDescriptors => "socket: no descriptors",
            Self::Refused => "refused",
            Self::BlackHole => "black hole",
            Self::Reset => "reset",
            Self::Delayed => "delayed",
            Self::Reordered => "reordered",
            Self::Overflow => "overflow",
            Self::LateCancel => "late cancel",
            Self::FileError => "file error",
            Self::ShortRead => "short read",
            Self::ShortWrite => "short write",
            Self::SlowFile => "slow file",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each [`Fault`] happens, each time it could, and how bad the slow ones are.
///
/// ```
/// use plimsoll_reactor::sim::{Fault, Faults};
///
/// let faults = Faults::clean().with(Fault::ShortSend, 250_000).with(Fault::Reset, 1_000);
/// assert_eq!(faults.chance(Fault::ShortSend), 250_000, "one send in four");
/// assert_eq!(faults.chance(Fault::BlackHole), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Per million, by `Fault as usize`; each at most 1,000,000.
    chances: [u32; Fault::ALL.len()],
    /// The longest delay of an interrupted, unbuffered or delayed operation, or of a late cancellation. Default 5 ms.
    pub delay_max: Duration,
    /// The longest time that a link is down before it comes back. Default 3 s.
    pub black_hole_max: Duration,
    /// The longest time of a slow file operation. Default 500 ms.
    pub slow_max: Duration,
}

impl Faults {
    /// No faults at all.
    pub const fn clean() -> Self {
        Self {
            chances: [0; Fault::ALL.len()],
            delay_max: Duration::from_millis(5),
            black_hole_max: Duration::from_secs(3),
            slow_max: Duration::from_millis(500),
        }
    }

    /// An ordinary bad day: everything is cut short and comes late now and then, few things fail.
    pub fn mild() -> Self {
        let mut faults = Self::clean();
        for fault in Fault::ALL {
            faults.chances[fault as usize] = match fault {
                Fault::Refused | Fault::Reset | Fault::BlackHole | Fault::FileError => 1_000,
                Fault::AcceptNoMemory
                | Fault::AcceptNoDescriptors
                | Fault::AcceptTableFull
                | Fault::AcceptAborted
                | Fault::SocketNoDescriptors => 5_000,
                _ => 20_000,
            };
        }
        faults
    }

    /// Everything at once, all the time.
    pub fn wild() -> Self {
        let mut faults = Self::clean();
        for fault in Fault::ALL {
            faults.chances[fault as usize] = match fault {
                Fault::BlackHole | Fault::Reset => 10_000,
                Fault::Refused | Fault::FileError => 50_000,
                Fault::AcceptNoMemory
                | Fault::AcceptNoDescriptors
                | Fault::AcceptTableFull
                | Fault::AcceptAborted
                | Fault::SocketNoDescriptors => 60_000,
                _ => 300_000,
            };
        }
        faults
    }

    /// The same, with `fault` at `per_million`.
    ///
    /// # Panics
    ///
    /// When `per_million` is over a million.
    #[must_use]
    pub const fn with(mut self, fault: Fault, per_million: u32) -> Self {
        assert!(per_million <= 1_000_000, "a chance is at most a million in a million");
        self.chances[fault as usize] = per_million;
        self
    }

    /// How often, per million, `fault` happens when it could.
    pub const fn chance(&self, fault: Fault) -> u32 {
        self.chances[fault as usize]
    }
}

impl Default for Faults {
    /// [`clean`](Self::clean).
    fn default() -> Self {
        Self::clean()
    }
}
