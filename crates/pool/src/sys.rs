//! The system calls of the pool: addresses, pages, advice. The only file of this crate that knows the system.
//!
//! **I-RANGE**: the functions marked unsafe work on whole pages of a reservation made here, and the caller owns what is
//! in them.
//!
//! **I-NEW**: the call makes something new, ends something that this file alone knows, or asks for a number; nothing
//! that exists is touched.

#[cfg(not(target_os = "linux"))]
compile_error!("plimsoll-pool works on Linux only");

use core::ptr::NonNull;
use std::sync::OnceLock;

/// Addresses of `bytes` bytes, aligned to as many (a power of two): no memory, nothing may be touched. Not inherited by
/// `fork`.
pub(crate) fn reserve(bytes: usize) -> Result<NonNull<u8>, i32> {
    debug_assert!(bytes.is_power_of_two());
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: I-NEW: a new mapping at an address of the system's choice touches nothing that exists.
    let map = unsafe { libc::mmap(core::ptr::null_mut(), 2 * bytes, libc::PROT_NONE, flags, -1, 0) };
    if map == libc::MAP_FAILED {
        return Err(errno());
    }
    let map = NonNull::new(map.cast::<u8>()).ok_or(libc::ENOMEM)?;
    let head = map.as_ptr().align_offset(bytes);
    // SAFETY: I-RANGE: twice the size contains an aligned part of the size; what is before and behind it is part of the
    // mapping, and empty.
    let base = unsafe {
        let base = map.add(head);
        let trimmed = unmap(map, head).and(unmap(base.add(bytes), bytes - head));
        debug_assert!(trimmed.is_ok(), "the ends of a fresh mapping can be unmapped");
        base
    };
    // Kernels without huge pages do not know the first advice, and need none.
    // SAFETY: I-RANGE: the whole new reservation.
    let advised = unsafe {
        let _ = advise(base, bytes, libc::MADV_NOHUGEPAGE);
        advise(base, bytes, libc::MADV_DONTFORK)
    };
    if let Err(errno) = advised {
        // SAFETY: I-RANGE: nobody knows of it yet.
        let _ = unsafe { unmap(base, bytes) };
        return Err(errno);
    }
    Ok(base)
}

/// Gives addresses back, and the pages behind them.
///
/// # Safety
///
/// I-RANGE, and nobody uses them any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) -> Result<(), i32> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: I-RANGE.
    check(unsafe { libc::munmap(base.as_ptr().cast(), bytes) })
}

/// Lets pages be touched.
///
/// # Safety
///
/// I-RANGE.
pub(crate) unsafe fn open(base: NonNull<u8>, bytes: usize) -> Result<(), i32> {
    // SAFETY: I-RANGE.
    check(unsafe { libc::mprotect(base.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) })
}

/// # Safety
///
/// I-RANGE; for `MADV_DONTNEED` the contents are lost.
unsafe fn advise(base: NonNull<u8>, bytes: usize, advice: i32) -> Result<(), i32> {
    // SAFETY: I-RANGE.
    check(unsafe { libc::madvise(base.as_ptr().cast(), bytes, advice) })
}

/// Bytes of a page of the system.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: I-NEW: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("Linux says how large its pages are")
}

/// Ranges of pages to give back together.
pub(crate) struct Ranges<const MAX: usize> {
    vectors: [libc::iovec; MAX],
    len: usize,
}

impl<const MAX: usize> Ranges<MAX> {
    pub(crate) fn new() -> Self {
        Self { vectors: [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; MAX], len: 0 }
    }

    pub(crate) fn push(&mut self, start: NonNull<u8>, bytes: usize) {
        self.vectors[self.len] = libc::iovec { iov_base: start.as_ptr().cast(), iov_len: bytes };
        self.len += 1;
    }

    /// Gives the pages of all ranges back to the system; calls `gone` with the number of each range that is.
    ///
    /// # Safety
    ///
    /// I-RANGE: their contents are lost.
    pub(crate) unsafe fn discard(&self, mut gone: impl FnMut(usize)) {
        let batching = *BATCHING.get_or_init(Batching::probe);
        let mut next = 0;
        while next < self.len {
            let rest = &self.vectors[next..self.len];
            // SAFETY: I-RANGE.
            let mut bytes = if rest.len() > 1 { unsafe { batching.discard(rest) } } else { 0 };
            while next < self.len && bytes >= self.vectors[next].iov_len {
                bytes -= self.vectors[next].iov_len;
                gone(next);
                next += 1;
            }
            // The call stops at the first range that fails: try that one alone.
            if let Some(vector) = self.vectors[..self.len].get(next) {
                let start = NonNull::new(vector.iov_base.cast()).expect("pushed as non-null");
                // SAFETY: I-RANGE.
                if unsafe { advise(start, vector.iov_len, libc::MADV_DONTNEED) }.is_ok() {
                    gone(next);
                }
                next += 1;
            }
        }
    }
}

/// Whether many ranges can be given back with one call, found out once.
static BATCHING: OnceLock<Batching> = OnceLock::new();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batching {
    /// The kernel knows a name for the calling process.
    Own,
    /// The process has a descriptor of itself. A child of a fork would reach its parent through it, hence the number.
    Descriptor { fd: i32, process: i32 },
    /// One call for each range.
    None,
}

/// `PIDFD_SELF_THREAD_GROUP`, from Linux 6.14 on.
const PIDFD_SELF: i32 = -10_001;

impl Batching {
    /// Tries each way on two pages of its own and looks whether they were emptied: kernels before 6.13 refuse this
    /// advice, and sandboxes may refuse the call or pretend.
    fn probe() -> Self {
        if Self::Own.works() {
            return Self::Own;
        }
        // SAFETY: I-NEW: opens a descriptor, closed on exec.
        let (process, fd) = unsafe {
            let process = libc::getpid();
            (process, libc::syscall(libc::SYS_pidfd_open, process, 0) as i32)
        };
        if fd < 0 {
            return Self::None;
        }
        let descriptor = Self::Descriptor { fd, process };
        if descriptor.works() {
            return descriptor;
        }
        // SAFETY: I-NEW: opened above, and unknown to everybody else.
        let _ = unsafe { libc::close(fd) };
        Self::None
    }

    fn works(self) -> bool {
        let (page, both) = (page_bytes(), 2 * page_bytes());
        let Ok(base) = reserve(both) else { return false };
        // SAFETY: I-RANGE: a reservation of this function's own, opened before it is touched.
        unsafe {
            let second = base.add(page);
            let mut works = false;
            if open(base, both).is_ok() {
                base.write(1);
                second.write(1);
                let vectors = [base, second].map(|base| libc::iovec { iov_base: base.as_ptr().cast(), iov_len: page });
                works = self.discard(&vectors) == both && base.read_volatile() == 0 && second.read_volatile() == 0;
            }
            let _ = unmap(base, both);
            works
        }
    }

    /// How many bytes were given back, from the start of the ranges on.
    ///
    /// # Safety
    ///
    /// I-RANGE: the contents are lost.
    unsafe fn discard(self, vectors: &[libc::iovec]) -> usize {
        let fd = match self {
            Self::Own => PIDFD_SELF,
            // SAFETY: I-NEW: asks for a number.
            Self::Descriptor { fd, process } if unsafe { libc::getpid() } == process => fd,
            Self::Descriptor { .. } | Self::None => return 0,
        };
        // SAFETY: I-RANGE: the call works on the process's own pages, named by the vectors.
        let done = unsafe {
            libc::syscall(libc::SYS_process_madvise, fd, vectors.as_ptr(), vectors.len(), libc::MADV_DONTNEED, 0_u32)
        };
        usize::try_from(done).unwrap_or(0)
    }
}

fn check(result: i32) -> Result<(), i32> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests;
