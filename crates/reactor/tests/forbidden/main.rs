//! Where io_uring is forbidden, as in most containers, the driver is mio and says why; forcing io_uring is a clear
//! error.
//!
//! Each case runs in a process of its own, because a filter of system calls cannot be taken off again: the test starts
//! this program anew, with the case in the environment.
#![allow(clippy::print_stdout, reason = "the child tells what it saw")]

mod filter;

use std::process::Command;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_reactor::{
    Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, DriverKind, Errno, Error, ListenOptions, Op, Payload,
    ReceiveMode, Selected, Token, Wait, select,
};

/// Set in the child: the error number that forbidden calls answer with.
const VARIABLE: &str = "PLIMSOLL_FORBIDDEN_ERRNO";

/// The last line of a child that got to its end.
const DONE: &str = "the child has seen what it should";

/// Seccomp's default profile in containers: the call is known and not allowed.
#[test]
fn not_permitted() {
    run_child(libc::EPERM);
}

/// An old kernel, or a sandbox that pretends to be one.
#[test]
fn not_implemented() {
    run_child(libc::ENOSYS);
}

fn run_child(errno: i32) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--exact", "child", "--ignored", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, errno.to_string())
        .output()
        .expect("this program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(DONE), "{said}");
}

#[test]
#[ignore = "started by the other tests, in a process of its own"]
fn child() {
    let errno = std::env::var(VARIABLE).expect("started by the other tests").parse().expect("a number");
    filter::forbid_io_uring(errno).expect("a process may always forbid itself something");
    let errno = Errno(errno);

    let selected = select(DriverChoice::Auto).expect("there is always mio");
    let Selected { kind, receive, reason } = selected;
    assert_eq!((kind, receive), (DriverKind::Mio, ReceiveMode::Poll));
    let (step, seen) = reason.expect("it says why not io_uring");
    assert_eq!(seen, errno, "at {step}");
    assert!(!step.is_empty());

    let forced = select(DriverChoice::Uring).expect_err("it is forbidden");
    assert!(
        matches!(forced, Error::DriverUnavailable { driver: DriverKind::Uring, errno: seen, .. } if seen == errno),
        "{forced:?}"
    );
    let message = forced.to_string();
    assert!(message.contains("uring") && message.contains("auto"), "{message}");

    assert_eq!(select(DriverChoice::Mio).expect("asked for").reason, None, "io_uring was not wanted");
    serve_one(&selected);
    println!("{DONE}");
}

/// The driver that was chosen works under the same filter.
fn serve_one(selected: &Selected) {
    let budget = Budget::new(MemoryLimit::mib(8));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("the line is wide");
    let blocking = Blocking::new(BlockingConfig::default(), &budget);
    let mut driver = Driver::new(selected, &DriverConfig::default(), &pool, &blocking).expect("it was selected");
    let listener =
        driver.listen("127.0.0.1:0".parse().expect("an address"), &ListenOptions::default()).expect("a port");
    driver
        .submit(Op::Accept { listener: listener.at() }, Token(1))
        .map_err(|(over, _)| over)
        .expect("the line is wide");
    let address = driver.local_address(listener.at()).expect("bound").ip().expect("of TCP");
    let client = std::net::TcpStream::connect(address).expect("somebody listens");
    let completion = loop {
        driver.enter(Wait::Forever).expect("a wait");
        if let Some(completion) = driver.reap() {
            break completion;
        }
    };
    let Payload::Fd(accepted) = completion.payload else { panic!("{:?}", completion.result) };
    assert_eq!(driver.peer_address(accepted.at()).ok(), client.local_addr().ok().map(Into::into));
    driver.close_now(accepted);
    driver.close_now(listener);
}
