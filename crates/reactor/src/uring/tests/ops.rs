//! Every operation's answer, waits and the doorbell.
#![forbid(unsafe_code)]

use super::*;
use crate::net::SocketOption;

#[test]
fn accept_brings_a_descriptor_and_leaves_no_connection_behind() {
    in_best_mode(DriverConfig::default(), |bench| {
        let listener = bench.driver.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap().number();
        bench.submit(Op::Accept { listener }, 1);
        bench.assert_quiet();
        let client = TcpStream::connect(bench.driver.local_address(listener).unwrap().ip().unwrap()).unwrap();
        let completion = bench.completion();
        assert_eq!((completion.token, completion.result), (Token(1), Ok(0)));
        let Payload::Fd(fd) = completion.payload else { panic!("an accept brings a descriptor") };
        assert_eq!(bench.driver.peer_address(fd.number()).unwrap(), client.local_addr().unwrap().into());

        // Two waiters and one connection: one of them goes on waiting.
        let waiting = [bench.submit(Op::Accept { listener }, 2), bench.submit(Op::Accept { listener }, 3)];
        bench.settle();
        let _second = TcpStream::connect(bench.driver.local_address(listener).unwrap().ip().unwrap()).unwrap();
        let first = bench.completion();
        bench.assert_quiet();
        let other = if first.key == waiting[0] { waiting[1] } else { waiting[0] };
        bench.driver.cancel(other);
        let cancelled = bench.completion();
        assert_eq!((cancelled.key, cancelled.result), (other, Err(Errno::CANCELED)));
        let Payload::Fd(second_fd) = first.payload else { panic!("an accept brings a descriptor") };
        for fd in [fd, second_fd, listener.owned()] {
            bench.driver.close_now(fd);
        }
    });
}

#[test]
fn receive_brings_bytes_and_end_of_file_in_each_mode() {
    in_each_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        bench.submit(Op::Receive { fd }, 5);
        bench.assert_quiet();
        client.write_all(b"hello").unwrap();
        let completion = bench.completion();
        assert_eq!((completion.token, received(&completion)), (Token(5), &b"hello"[..]));
        drop(completion);

        // More than one receive brings; nothing is lost between them.
        let sent: Vec<u8> = (0..100_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
        client.write_all(&sent).unwrap();
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let completion = bench.run(Op::Receive { fd });
            let bytes = received(&completion);
            assert!(bytes.len() <= crate::RECEIVE_BYTES_MAX);
            got.extend_from_slice(bytes);
        }
        assert_eq!(got, sent);

        drop(client);
        let end = bench.run(Op::Receive { fd });
        assert_eq!(end.result, Ok(0));
        assert!(matches!(end.payload, Payload::None));
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn a_reset_is_an_error_of_the_receive() {
    in_each_mode(DriverConfig::default(), |bench| {
        let (client, fd) = bench.connection();
        bench.submit(Op::Receive { fd }, 5);
        bench.settle();
        socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        let completion = bench.completion();
        assert_eq!(completion.result, Err(Errno(libc::ECONNRESET)));
        assert!(matches!(completion.payload, Payload::None));
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn receive_into_fills_the_room_of_a_lease() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        let lease = bench.lease(b"head: ");
        bench.submit(Op::ReceiveInto { fd, lease }, 0);
        bench.assert_quiet();
        client.write_all(b"body").unwrap();
        let completion = bench.completion();
        assert_eq!(completion.result, Ok(4));
        assert_eq!(*lease_of(completion), *b"head: body");
        drop(client);
        let lease = bench.room(64);
        let end = bench.run(Op::ReceiveInto { fd, lease });
        assert_eq!(end.result, Ok(0));
        assert!(lease_of(end).is_empty());
        bench.driver.close_now(fd.owned());
    });
}

/// However many operations of files are in flight.
#[test]
fn files_take_a_few_threads_of_the_kernel() {
    in_best_mode(DriverConfig::default(), |bench| {
        let path = std::env::temp_dir().join(format!("plimsoll-threads-{}", std::process::id()));
        std::fs::write(&path, vec![1; 1 << 16]).unwrap();
        let this = std::fs::read_link("/proc/thread-self").unwrap();
        let name = format!("iou-wrk-{}", this.file_name().unwrap().display());
        let threads = || {
            let all = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            let names = all.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            names.filter(|other| other.trim_end() == name).count()
        };
        let opened = std::fs::File::options().write(true).open(&path).unwrap();
        let fd = Number::from_raw(std::os::fd::IntoRawFd::into_raw_fd(opened));
        let mut seen = 0;
        for _ in 0..20 {
            // Syncs always run on such threads.
            for _ in 0..64 {
                bench.submit(Op::Fsync { fd, data_only: false }, 0);
            }
            bench.driver.enter(Wait::No).unwrap();
            seen = seen.max(threads());
            for _ in 0..64 {
                assert_eq!(bench.completion().result, Ok(0));
                seen = seen.max(threads());
            }
        }
        assert!((1..=5).contains(&seen), "{seen} threads");
        bench.driver.close_now(fd.owned());
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn send_consumes_what_the_socket_took() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        let sent = bench.run(Op::Send { fd, bytes: SendBytes::Static(b"static ") });
        assert_eq!(sent.result, Ok(7));
        assert!(matches!(&sent.payload, Payload::Sent(rest) if rest.is_empty()));
        let bytes = SendBytes::Lease(bench.lease(b"leased"));
        assert_eq!(bench.run(Op::Send { fd, bytes }).result, Ok(6));
        let mut got = [0; 13];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"static leased");

        // A peer that does not read: the kernel takes what fits, and the rest waits.
        bench.driver.set_option(fd, SocketOption::SendBuffer(4_096)).unwrap();
        static PLENTY: [u8; 64 << 20] = [b'x'; 64 << 20];
        let mut rest = SendBytes::Static(&PLENTY);
        let left = loop {
            let before = rest.as_slice().len();
            let waiting = bench.submit(Op::Send { fd, bytes: rest }, 9);
            let until = sys::now() + Duration::from_millis(50);
            let completion = loop {
                bench.driver.enter(Wait::Until(until)).unwrap();
                let completion = bench.driver.reap();
                if completion.is_some() || sys::now() >= until {
                    break completion;
                }
            };
            if completion.is_none() {
                bench.driver.cancel(waiting);
            }
            let completion = completion.unwrap_or_else(|| bench.completion());
            if completion.result == Err(Errno::CANCELED) {
                let Payload::Sent(left) = completion.payload else { panic!("a send gives the rest back") };
                break left;
            }
            let taken = completion.result.unwrap() as usize;
            let Payload::Sent(left) = completion.payload else { panic!("a send gives the rest back") };
            assert!(taken > 0 && left.as_slice().len() == before - taken);
            rest = left;
        };
        assert!(!left.is_empty());

        drop(client);
        let gone = loop {
            let completion = bench.run(Op::Send { fd, bytes: SendBytes::Static(b"to nobody") });
            if completion.result.is_err() {
                break completion;
            }
        };
        assert!(
            matches!(gone.result, Err(Errno(libc::EPIPE | libc::ECONNRESET))),
            "an error and no signal: {:?}",
            gone.result
        );
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn connect_reaches_a_listener_or_says_why_not() {
    in_best_mode(DriverConfig::default(), |bench| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let fd = bench.driver.socket(SocketKind::Tcp4).unwrap().number();
        let address = bench.driver.address(to.into()).unwrap();
        assert_eq!(bench.run(Op::Connect { fd, address }).result, Ok(0));
        let (_server, from) = listener.accept().unwrap();
        assert_eq!(bench.driver.local_address(fd).unwrap(), from.into());
        bench.driver.close_now(fd.owned());
        drop(listener);
        let fd = bench.driver.socket(SocketKind::Tcp4).unwrap().number();
        let address = bench.driver.address(to.into()).unwrap();
        assert_eq!(bench.run(Op::Connect { fd, address }).result, Err(Errno(libc::ECONNREFUSED)));
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn a_shutdown_comes_after_the_sends_before_it() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        bench.submit(Op::Send { fd, bytes: SendBytes::Static(b"last words") }, 1);
        bench.submit(Op::Shutdown { fd, how: Shutdown::Write }, 2);
        let answers = [bench.completion(), bench.completion()];
        assert!(answers.iter().all(|answer| answer.result.is_ok()), "{answers:?}");
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
        client.write_all(b"heard").unwrap();
        assert_eq!(received(&bench.run(Op::Receive { fd })), b"heard");
        bench.driver.close_now(fd.owned());
        assert_eq!(bench.run(Op::Shutdown { fd, how: Shutdown::Both }).result, Err(Errno(libc::EBADF)));
    });
}

#[test]
fn close_closes() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        assert_eq!(bench.run(Op::Close { fd: fd.owned() }).result, Ok(0));
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        let (mut client, fd) = bench.connection();
        bench.driver.close(fd.owned());
        bench.settle();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn polls_wait_for_their_event_only() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        assert_eq!(bench.run(Op::Poll { fd, interest: Interest::Writable }).result, Ok(0));
        bench.submit(Op::Poll { fd, interest: Interest::Readable }, 1);
        let closed = bench.submit(Op::Poll { fd, interest: Interest::PeerClosed }, 2);
        bench.assert_quiet();
        client.write_all(b"unread").unwrap();
        let readable = bench.completion();
        assert_eq!((readable.token, readable.result), (Token(1), Ok(0)));
        bench.assert_quiet();
        drop(client);
        let completion = bench.completion();
        assert_eq!((completion.key, completion.result), (closed, Ok(0)));
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn files_are_written_read_measured_and_synced() {
    in_best_mode(DriverConfig::default(), |bench| {
        let scratch = Scratch::new("files");
        let fd = bench.open(&scratch.0, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        assert_eq!(scratch.descriptors(), 1);
        let lease = bench.lease(b"0123456789");
        let written = bench.run(Op::WriteAt { fd, lease, offset: 5 });
        assert_eq!(written.result, Ok(10));
        assert_eq!(*lease_of(written), *b"0123456789");
        for data_only in [false, true] {
            assert_eq!(bench.run(Op::Fsync { fd, data_only }).result, Ok(0));
        }
        let lease = bench.room(64);
        let read = bench.run(Op::ReadAt { fd, lease, offset: 10 });
        assert_eq!(read.result, Ok(5));
        assert_eq!(*lease_of(read), *b"56789");
        let lease = bench.room(64);
        assert_eq!(bench.run(Op::ReadAt { fd, lease, offset: 15 }).result, Ok(0));
        let lease = bench.room(sys::STATX_BYTES);
        let stat = bench.run(Op::Stat { fd, lease });
        assert_eq!(stat.result, Ok(256));
        // `stx_size` is at byte 40.
        assert_eq!(lease_of(stat)[40..48], 15_u64.to_ne_bytes());
        assert_eq!(bench.run(Op::Close { fd: fd.owned() }).result, Ok(0));
        assert_eq!(scratch.descriptors(), 0);
        let path = bench.path(&scratch.0.with_extension("missing"));
        let missing = bench.run(Op::Open { path, flags: libc::O_RDONLY, mode: 0 });
        assert_eq!(missing.result, Err(Errno(libc::ENOENT)));
        assert!(matches!(missing.payload, Payload::None));
    });
}

#[test]
fn a_wait_ends_at_its_deadline_and_not_before() {
    in_best_mode(DriverConfig::default(), |bench| {
        let before = sys::now();
        bench.driver.enter(Wait::Until(before + Duration::from_millis(30))).unwrap();
        let after = sys::now();
        assert!(after - before >= Duration::from_millis(29), "{:?}", after - before);
        assert!(bench.driver.now() - before >= Duration::from_millis(29), "the driver's time moves with a turn");
        assert!(bench.driver.now() <= after);
        let before = sys::now();
        bench.driver.enter(Wait::Until(Instant::from_nanos(1))).unwrap();
        bench.driver.enter(Wait::No).unwrap();
        assert!(sys::now() - before < Duration::from_secs(10));
    });
}

#[test]
fn the_doorbell_ends_a_wait_however_often() {
    in_best_mode(DriverConfig::default(), |bench| {
        let bell = bench.driver.doorbell().clone();
        for round in 0..50 {
            let bell = bell.clone();
            let ringer = std::thread::spawn(move || {
                if round % 2 == 0 {
                    std::thread::sleep(Duration::from_micros(300));
                }
                bell.ring();
            });
            let before = sys::now();
            // A ring may be heard twice; never is one not heard.
            bench.driver.enter(Wait::Until(before + Duration::from_secs(5))).unwrap();
            ringer.join().unwrap();
            assert!(sys::now() - before < Duration::from_secs(4), "round {round}");
            assert!(bench.driver.reap().is_none());
            bench.settle();
            assert!(bench.driver.reap().is_none());
        }
        bell.ring();
        bell.ring();
        bench.driver.enter(Wait::Forever).unwrap();
        assert!(bench.driver.reap().is_none());
        let before = sys::now();
        bench.driver.enter(Wait::Until(before + Duration::from_millis(20))).unwrap();
        assert!(sys::now() - before >= Duration::from_millis(19), "a bell that was heard is silent");
    });
}
