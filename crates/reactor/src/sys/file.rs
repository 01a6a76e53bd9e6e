//! Files. These calls may wait for a disk: only threads of the blocking pool make them, but for [`end_opening`].
//!
//! **I-SLICE**: the kernel touches only the memory of the slices and strings handed over, and only within the call.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::mem::MaybeUninit;

use super::retry;
use crate::Errno;
use crate::fd::Number;

/// Bytes of `struct statx`.
pub(crate) const STATX_BYTES: usize = size_of::<libc::statx>();

const _: () = assert!(STATX_BYTES == 256, "fixed by the kernel's interface");

/// The fields that a stat asks for.
pub(crate) const STATX_MASK: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// Opens a file, close-on-exec; `O_NONBLOCK` holds for the opening alone.
pub(crate) fn open(path: &CStr, flags: i32, mode: u32) -> Result<Number, Errno> {
    // SAFETY: I-SLICE: a string with its NUL.
    let fd = retry(|| unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) } as isize)?;
    let fd = Number::from_raw(fd as i32);
    end_opening(fd, flags);
    Ok(fd)
}

/// Has reads and writes wait of a file that was just opened: `O_NONBLOCK` holds for the opening alone.
pub(crate) fn end_opening(fd: Number, flags: i32) {
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: I-SLICE: no memory is handed over. It fails for what takes neither, as with `O_PATH`.
        let _is_a_path = retry(|| unsafe { libc::fcntl(fd.raw(), libc::F_SETFL, flags & !libc::O_NONBLOCK) } as isize);
    }
}

/// Writes the descriptor's `struct statx` to the front of `room`; its size.
pub(crate) fn stat(fd: Number, room: &mut [MaybeUninit<u8>]) -> Result<usize, Errno> {
    assert!(room.len() >= STATX_BYTES, "room for a struct statx");
    let metadata = room.as_mut_ptr().cast::<libc::statx>();
    // SAFETY: I-SLICE: at least as long as the structure, as asserted; the kernel copies it byte by byte, so alignment
    // does not matter.
    retry(|| unsafe { libc::statx(fd.raw(), c"".as_ptr(), libc::AT_EMPTY_PATH, STATX_MASK, metadata) } as isize)?;
    Ok(STATX_BYTES)
}

/// Reads at an offset; the first so many bytes of `room` are initialised afterwards, none at end-of-file.
pub(crate) fn read_at(fd: Number, room: &mut [MaybeUninit<u8>], offset: u64) -> Result<usize, Errno> {
    let offset = i64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: I-SLICE.
    let read = retry(|| unsafe { libc::pread64(fd.raw(), room.as_mut_ptr().cast(), room.len(), offset) })?;
    debug_assert!(read <= room.len());
    Ok(read)
}

/// Writes at an offset; how much was written.
pub(crate) fn write_at(fd: Number, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let offset = i64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    // SAFETY: I-SLICE.
    let written = retry(|| unsafe { libc::pwrite64(fd.raw(), bytes.as_ptr().cast(), bytes.len(), offset) })?;
    debug_assert!(written <= bytes.len());
    Ok(written)
}

/// Makes a file's data durable, and its metadata unless `data_only`.
pub(crate) fn fsync(fd: Number, data_only: bool) -> Result<(), Errno> {
    // SAFETY: I-SLICE: no memory is handed over.
    let sync = || unsafe { if data_only { libc::fdatasync(fd.raw()) } else { libc::fsync(fd.raw()) } };
    retry(|| sync() as isize)?;
    Ok(())
}
