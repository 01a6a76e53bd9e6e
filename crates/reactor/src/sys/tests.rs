//! What the wrappers add to the calls: addresses by field, the errors of listening, rounding, and calls that do not
//! wait.
#![forbid(unsafe_code)]

use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::mpsc;

use super::*;
use crate::fd::Number;
use crate::{Address, Error, Instant, ListenOptions, Shutdown, SocketKind, SocketOption};

fn fd_of(socket: &impl AsRawFd) -> Number {
    Number::from_raw(socket.as_raw_fd())
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a connection");
    let (server, _) = listener.accept().expect("it is there");
    (client, server)
}

#[test]
fn addresses_go_there_and_back() {
    let addresses =
        ["0.0.0.0:0", "127.0.0.1:80", "203.0.113.255:65535", "[::]:1", "[2001:db8::1]:443", "[fe80::1%7]:8080"];
    for text in addresses {
        let address: SocketAddr = text.parse().expect("an address");
        with_sockaddr(address.into(), |bytes| {
            // What socket2 makes of the same address is the system's form by another hand.
            let theirs = socket2::SockAddr::from(address);
            assert_eq!(bytes.len(), theirs.len() as usize, "{text}");
            assert_eq!(sockaddr_from_bytes(bytes), Some(address.into()), "{text}");
            assert_eq!(sockaddr_from_bytes(&bytes[..bytes.len() - 1]), None, "cut short");
        });
    }
    assert_eq!(sockaddr_from_bytes(&[]), None);
    assert_eq!(sockaddr_from_bytes(&[0xff; 28]), None, "no such family");
}

#[test]
fn the_kernel_understands_our_addresses() {
    for text in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(text) else {
            // A host without IPv6.
            continue;
        };
        let address = listener.local_addr().expect("bound");
        let kind = if address.is_ipv4() { SocketKind::Tcp4 } else { SocketKind::Tcp6 };
        let client = socket(kind, false).expect("a socket");
        with_sockaddr(address.into(), |bytes| connect(client, bytes)).expect("a connection");
        assert_eq!(peer_address(client), Ok(address.into()));
        assert_eq!(socket_error(client), Ok(()));
        close(client).expect("open until now");
    }
}

#[test]
fn nothing_waits() {
    let (client, mut server) = pair();
    // Both are blocking descriptors.
    assert_eq!(receive(fd_of(&client), &mut [0; 8]), Err(Errno(libc::EAGAIN)));
    assert_eq!(receive_into(fd_of(&client), &mut [MaybeUninit::uninit(); 8]), Err(Errno(libc::EAGAIN)));
    let full = loop {
        if let Err(errno) = send(fd_of(&client), &[7; 65_536]) {
            break errno;
        }
    };
    assert_eq!(full, Errno(libc::EAGAIN));
    server.write_all(b"to the client").expect("it is connected");
    let mut room = [MaybeUninit::new(0); 32];
    assert_eq!(receive_into(fd_of(&client), &mut room), Ok(13));
    shutdown(fd_of(&server), Shutdown::Both).expect("connected");
    assert_eq!(receive(fd_of(&client), &mut [0; 8]), Ok(0));

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("an option");
    assert_eq!(accept(fd_of(&listener), true), Ok(None));
}

#[test]
fn accepted_sockets_are_as_asked_for() {
    let listener = listen("127.0.0.1:0".parse().expect("an address"), &ListenOptions::default(), true).expect("a port");
    let address = local_address(listener).expect("bound").ip().expect("of TCP");
    for nonblocking in [true, false] {
        let _client = TcpStream::connect(address).expect("a connection");
        let fd = accept(listener, nonblocking).expect("an accept").expect("somebody is there");
        let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.raw())).expect("proc is mounted");
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).expect("a line of flags").trim();
        let flags = i32::from_str_radix(flags, 8).expect("octal");
        assert_eq!(flags & libc::O_NONBLOCK != 0, nonblocking);
        assert_ne!(flags & libc::O_CLOEXEC, 0);
        close(fd).expect("open until now");
    }
    close(listener).expect("open until now");
    assert_eq!(close(Number::from_raw(1 << 29)), Err(Errno(libc::EBADF)));
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let shared = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    let joining = ListenOptions { join: true, ..shared };
    let first = listen("127.0.0.1:0".parse().expect("an address"), &shared, true).expect("a port");
    let address = local_address(first).expect("bound");
    for options in [ListenOptions::default(), shared] {
        let second = listen(address, &options, true);
        assert!(matches!(&second, Err(Error::AddressInUse(taken)) if **taken == address), "{second:?}");
    }
    let joined = listen(address, &joining, true).expect("it may");
    close(joined).expect("open until now");
    close(first).expect("open until now");
    close(listen(address, &shared, true).expect("free again")).expect("open until now");
}

#[test]
fn other_errors_of_listening() {
    let elsewhere: Address = "203.0.113.1:0".parse().expect("an address for documentation");
    let result = listen(elsewhere, &ListenOptions::default(), true);
    assert!(matches!(&result, Err(Error::AddressNotAvailable(address)) if **address == elsewhere), "{result:?}");
}

#[test]
fn options_are_set() {
    let (client, _server) = pair();
    let fd = fd_of(&client);
    let seen = || socket2::SockRef::from(&client);
    set_option(fd, SocketOption::NoDelay(true)).expect("an option");
    assert!(seen().tcp_nodelay().expect("an option"));
    set_option(fd, SocketOption::KeepAlive(Some(Duration::from_millis(1)))).expect("an option");
    assert_eq!(seen().tcp_keepalive_time().expect("an option"), Duration::from_secs(1), "at least a second");
    assert!(seen().keepalive().expect("an option"));
    set_option(fd, SocketOption::KeepAlive(None)).expect("an option");
    assert!(!seen().keepalive().expect("an option"));
    set_option(fd, SocketOption::Linger(Some(Duration::from_millis(10)))).expect("an option");
    assert_eq!(seen().linger().expect("an option"), Some(Duration::from_secs(1)), "not the zero that resets");
    set_option(fd, SocketOption::Linger(Some(Duration::ZERO))).expect("an option");
    assert_eq!(seen().linger().expect("an option"), Some(Duration::ZERO));
    set_option(fd, SocketOption::NotSentLowWater(16_384)).expect("an option");
    assert_eq!(seen().tcp_notsent_lowat().expect("an option"), 16_384);
    set_option(fd, SocketOption::UserTimeout(Duration::from_secs(9))).expect("an option");
    assert_eq!(seen().tcp_user_timeout().expect("an option"), Some(Duration::from_secs(9)));
    set_option(fd, SocketOption::SendBuffer(100_000)).expect("an option");
    assert!(seen().send_buffer_size().expect("an option") >= 100_000);
    set_option(fd, SocketOption::ReceiveBuffer(100_000)).expect("an option");
    assert!(seen().recv_buffer_size().expect("an option") >= 100_000);
}

#[test]
fn poll_tells_what_holds_now() {
    let (mut client, server) = pair();
    let fd = fd_of(&server);
    assert_eq!(poll_now(fd, libc::POLLIN | libc::POLLRDHUP), Ok(0));
    assert_eq!(poll_now(fd, libc::POLLOUT), Ok(libc::POLLOUT));
    client.write_all(b"x").expect("it is connected");
    while poll_now(fd, libc::POLLIN) == Ok(0) {}
    assert_eq!(poll_now(fd, libc::POLLRDHUP), Ok(0));
    client.shutdown(std::net::Shutdown::Write).expect("it is connected");
    while poll_now(fd, libc::POLLRDHUP) == Ok(0) {}
    let mut rest = Vec::new();
    (&server).read_to_end(&mut rest).expect("an end");
    assert_eq!(rest, b"x");
    let closed = Number::from_raw(server.into_raw_fd());
    close(closed).expect("open until now");
    let second = poll_now(Number::from_raw(1 << 29), libc::POLLIN);
    assert_eq!(second, Err(Errno(libc::EBADF)));
}

#[test]
fn the_clock_is_the_monotonic_one() {
    let before = now();
    std::thread::sleep(Duration::from_millis(5));
    let after = now();
    assert!(after - before >= Duration::from_millis(5));
    assert!(before > Instant::default());
}

#[test]
fn an_event_is_a_flag() {
    let event = EventFd::new().expect("an eventfd");
    let fd = Number::from_raw(event.raw());
    assert!(!event.clear());
    assert_eq!(poll_now(fd, libc::POLLIN), Ok(0));
    event.signal();
    event.signal();
    assert_eq!(poll_now(fd, libc::POLLIN), Ok(libc::POLLIN));
    assert!(event.clear(), "both at once");
    assert!(!event.clear());
}

#[test]
fn threads_have_the_name_and_run() {
    let (sender, receiver) = mpsc::channel();
    let run = move || sender.send(std::thread::current().name().map(str::to_owned)).expect("somebody listens");
    spawn_thread("a-thread", 64 * 1024, run).expect("a thread").join().expect("no panic");
    assert_eq!(receiver.recv().expect("it ran").as_deref(), Some("a-thread"));
}
