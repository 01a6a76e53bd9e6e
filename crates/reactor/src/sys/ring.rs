//! The io_uring calls that the io-uring crate does not make in the form the driver needs, and the kernel's release.
//!
//! **I-ARGS**: the arguments are valid for the call, which keeps none of them.
#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::Errno;

/// `io_uring_enter(2)`: how many entries were taken.
///
/// # Safety
///
/// `argument` is null or points to `argument_bytes` bytes of what `flags` says; what is queued in the ring is valid
/// until it has completed.
pub(crate) unsafe fn ring_enter(
    ring: u32,
    submit: u32,
    wanted: u32,
    flags: u32,
    argument: *const c_void,
    argument_bytes: usize,
) -> Result<u32, Errno> {
    // SAFETY: I-ARGS, as the caller promises.
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_enter, ring, submit, wanted, flags, argument, argument_bytes) };
    debug_assert!(result <= i64::from(submit), "it takes what is queued");
    if result < 0 { Err(Errno::last()) } else { Ok(result as u32) }
}

/// `struct io_uring_rsrc_update`, as `IORING_REGISTER_RING_FDS` and its opposite want it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RingUpdate {
    pub(crate) offset: u32,
    pub(crate) reserved: u32,
    pub(crate) data: u64,
}

const _: () = assert!(size_of::<RingUpdate>() == 16);

/// `io_uring_register(2)` for one entry of the table of rings.
pub(crate) fn ring_register(ring: i32, opcode: u32, update: &mut RingUpdate) -> Result<i64, Errno> {
    // SAFETY: I-ARGS: one update, borrowed for the call.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, opcode, &raw mut *update, 1_u32) };
    if result < 0 { Err(Errno::last()) } else { Ok(result) }
}

/// The running kernel's release, such as `6.18.4-arch1`; empty if it does not say.
pub(crate) fn kernel_release() -> String {
    let mut names = core::mem::MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: I-ARGS; zeros are a valid value of the structure, should the call fail.
    let names = unsafe {
        libc::uname(names.as_mut_ptr());
        names.assume_init()
    };
    names.release.iter().map(|byte| *byte as u8 as char).take_while(|c| *c != '\0').collect()
}
