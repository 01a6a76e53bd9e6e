//! Descriptors: who owns one may close it, and who borrows one may use it.
//!
//! **I-OPEN**: a number that an operation or a call of the system names is that of the file it was meant for. Up to its
//! start an operation borrows the [`Fd`], which only a close takes. What is in flight when its descriptor is closed,
//! and may have to be done later by the number, is found by the close in a list or a queue and ended, or has the
//! [`Life`] of the descriptor with it, which has ended then. Entries in the kernel's queue are handed over before the
//! close.
#![forbid(unsafe_code)]

use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use std::os::fd::{IntoRawFd, OwnedFd};

/// An open descriptor, as the driver knows it: a file descriptor of the process, or of the simulated kernel.
///
/// It is owned, like an [`OwnedFd`]: it cannot be copied, and closing it takes it ([`Op::Close`](crate::Op::Close),
/// [`Driver::close`](crate::Driver::close), [`Driver::close_now`](crate::Driver::close_now)). Operations and calls
/// borrow it with [`at`](Self::at). So a descriptor is closed once at most, and none is used after its close, when its
/// number may be another file's:
///
/// ```compile_fail,E0382
/// # fn twice(driver: &mut plimsoll_reactor::Driver, fd: plimsoll_reactor::Fd) {
/// driver.close_now(fd);
/// driver.close_now(fd);
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # use plimsoll_reactor::{Driver, Fd, Op, Token};
/// # fn late(driver: &mut Driver, fd: Fd) {
/// let receive = Op::Receive { fd: fd.at() };
/// driver.close_now(fd);
/// let _ = driver.submit(receive, Token(1));
/// # }
/// ```
///
/// It does not close itself, because that takes a driver: one that is dropped stays open.
///
/// It comes from a driver, or from an [`OwnedFd`], such as a socket that another process has handed over. There is no
/// way to make one of a bare number, because the number could be a descriptor that other code owns, such as the
/// driver's own ring:
///
/// ```compile_fail,E0599
/// let ring = plimsoll_reactor::Fd::from_raw(3);
/// ```
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
#[must_use = "a descriptor that is dropped stays open"]
pub struct Fd(i32);

impl From<OwnedFd> for Fd {
    /// The descriptor is the driver's to close from now on.
    ///
    /// ```
    /// use std::os::fd::{AsRawFd, OwnedFd};
    ///
    /// let socket = OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0")?);
    /// let number = socket.as_raw_fd();
    /// assert_eq!(plimsoll_reactor::Fd::from(socket).raw(), number);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn from(owned: OwnedFd) -> Self {
        Self(owned.into_raw_fd())
    }
}

impl Fd {
    /// Lends the descriptor to an operation or a call.
    #[inline]
    pub const fn at(&self) -> FdRef<'_> {
        FdRef { raw: self.0.to_ne_bytes(), life: Life::UNNOTED, owner: PhantomData }
    }

    /// Its number. That of a simulated kernel is negative, so that no call of the system takes it for a file of the
    /// process.
    pub const fn raw(&self) -> i32 {
        self.0
    }

    /// Its number, for this crate.
    pub(crate) const fn number(&self) -> Number {
        Number::from_raw(self.0)
    }
}

impl fmt::Debug for Fd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.at().fmt(f)
    }
}

/// A descriptor on loan from its [`Fd`]: it can be used and not closed.
#[derive(Clone, Copy)]
pub struct FdRef<'fd> {
    raw: [u8; 4],
    life: Life,
    owner: PhantomData<&'fd Fd>,
}

/// Which of the descriptors that have had a number one after the other. For a driver to note in what it has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life([u8; 3]);

impl Life {
    /// It is not noted: nothing will be done by the number after a close.
    pub(crate) const UNNOTED: Self = Self([0; 3]);
    /// There was no memory to note it.
    pub(crate) const UNKNOWN: Self = Self([0xff; 3]);

    pub(crate) const fn new(number: u32) -> Self {
        debug_assert!(number < 1 << 24, "24 bits");
        let [a, b, c, _] = number.to_le_bytes();
        Self([a, b, c])
    }

    pub(crate) const fn get(self) -> u32 {
        let Self([a, b, c]) = self;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// A descriptor inside this crate, where nothing keeps it open but I-OPEN.
pub(crate) type Number = FdRef<'static>;

/// What is added to the numbers of a simulated kernel: far from all that the system has a meaning for.
pub(crate) const SIMULATED: i32 = i32::MIN;

impl Number {
    /// The descriptor with this number. Only for numbers that the system, or the simulated kernel, has handed out.
    pub(crate) const fn from_raw(raw: i32) -> Self {
        Self { raw: raw.to_ne_bytes(), life: Life::UNNOTED, owner: PhantomData }
    }

    /// Makes it somebody's to close: it must be nobody's so far.
    pub(crate) const fn owned(self) -> Fd {
        Fd(self.raw())
    }
}

impl FdRef<'_> {
    pub(crate) const fn life(self) -> Life {
        self.life
    }

    pub(crate) fn set_life(&mut self, life: Life) {
        self.life = life;
    }

    /// Its number.
    #[inline]
    pub const fn raw(self) -> i32 {
        i32::from_ne_bytes(self.raw)
    }

    /// The same for what is in flight, which the driver ends with the descriptor.
    #[inline]
    pub(crate) const fn detached(self) -> Number {
        FdRef { raw: self.raw, life: self.life, owner: PhantomData }
    }
}

impl PartialEq for FdRef<'_> {
    fn eq(&self, other: &FdRef<'_>) -> bool {
        self.raw == other.raw
    }
}

impl Eq for FdRef<'_> {}

impl PartialOrd for FdRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FdRef<'_> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.raw().cmp(&other.raw())
    }
}

impl Hash for FdRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

impl fmt::Debug for FdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raw = self.raw();
        write!(f, "fd{}", if raw < 0 { raw - SIMULATED } else { raw })
    }
}
