//! The probe: what it finds here, and where io_uring is forbidden as in a container.
//!
//! **I-FILTER**: the filter is well-formed, outlives the call that installs it, and binds the calling thread only.
#![allow(unsafe_code)]

use super::*;
use crate::uring::ring::{kernel_release, parse_release};

/// Makes a system call fail with `errno` on this thread, for ever.
fn forbid(call: i64, errno: i32) {
    let statement = |code: u32, jump_true: u8, jump_false: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k,
    };
    let mut program = [
        // The number of the call is the first field of `struct seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: I-FILTER.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(installed, "a process may always restrict itself: {}", Errno::last());
}

/// What the probe says on a thread where `call` fails with `errno`.
fn probe_without(call: i64, errno: i32) -> Result<ReceiveMode, (&'static str, Errno)> {
    std::thread::spawn(move || {
        forbid(call, errno);
        probe()
    })
    .join()
    .expect("a probe never panics")
}

#[test]
fn a_forbidden_io_uring_is_a_reason() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EINVAL] {
        assert_eq!(probe_without(libc::SYS_io_uring_setup, errno), Err(("io_uring_setup", Errno(errno))));
    }
    if probe().is_ok() {
        assert_eq!(probe_without(libc::SYS_io_uring_enter, libc::EPERM), Err(("io_uring_enter", Errno(libc::EPERM))));
        assert_eq!(
            probe_without(libc::SYS_io_uring_register, libc::EPERM),
            Ok(ReceiveMode::Poll),
            "a ring without buffer rings"
        );
    }
}

#[test]
fn the_probe_finds_what_the_kernel_has() {
    match probe() {
        Ok(mode) => {
            assert_eq!(mode, ReceiveMode::Poll, "it works wherever a ring does");
            assert!(kernel_release() >= (6, 1));
        }
        Err((step, errno)) => skip(step, errno),
    }
}

#[test]
fn releases_are_read_as_two_numbers() {
    assert_eq!(parse_release("6.18.44-fc-v669"), (6, 18));
    assert_eq!(parse_release("6.1.0-18-amd64"), (6, 1));
    assert_eq!(parse_release("6.16-rc1"), (6, 16));
    assert_eq!(parse_release("10"), (10, 0));
    assert_eq!(parse_release(""), (0, 0));
    assert!(parse_release("5.15.0") < (6, 1) && (6, 1) < parse_release("6.12.9"));
}
