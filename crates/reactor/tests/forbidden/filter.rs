//! A filter of system calls for this process: `io_uring_setup` answers with an error number. Tests only.
//!
//! **I-PROGRAM**: the filter program lives on the stack of the function that installs it; the kernel copies it within
//! the call.

use std::io::{Error, Result};

/// Forbids `io_uring_setup` to this thread and all it starts, for good.
pub(crate) fn forbid_io_uring(errno: i32) -> Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let answer = libc::SECCOMP_RET_ERRNO | errno as u32 & libc::SECCOMP_RET_DATA;
    let number_at = core::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number_at),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_setup as u32)
        },
        statement(libc::BPF_RET | libc::BPF_K, answer),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: I-PROGRAM: no memory is handed over. Without privileges a filter needs this first.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: I-PROGRAM: `filter` and the program it points to outlive the call.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) } != 0 {
        return Err(Error::last_os_error());
    }
    Ok(())
}
