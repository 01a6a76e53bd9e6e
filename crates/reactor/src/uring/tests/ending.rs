//! Cancel, orphan and exit at every stage: one completion each, nothing leaks, nothing is lost.
#![forbid(unsafe_code)]

use super::*;
use crate::SharedBytes;
use crate::slots::{Finished, SlotState};

/// How far an operation has come when its owner changes their mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Submitted, and not with the kernel yet.
    Queued,
    /// With the kernel, which waits.
    Waiting,
    /// Over, and nobody has looked.
    Over,
}

const STAGES: [Stage; 3] = [Stage::Queued, Stage::Waiting, Stage::Over];

/// A connection on which an operation can be brought to each stage.
struct Scene {
    listener: Number,
    client: TcpStream,
    fd: Number,
    late: Option<TcpStream>,
}

impl Scene {
    fn new(bench: &mut Bench) -> Self {
        let listener = bench.driver.listen("127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap().number();
        let (client, fd) = bench.connection_to(listener);
        Self { listener, client, fd, late: None }
    }

    fn waiting_ops(&self, bench: &Bench) -> Vec<Op<'static>> {
        vec![
            Op::Accept { listener: self.listener },
            Op::Receive { fd: self.fd },
            Op::ReceiveInto { fd: self.fd, lease: bench.room(4_096) },
            Op::Poll { fd: self.fd, interest: Interest::Readable },
        ]
    }

    /// Makes what all of them wait for happen.
    fn happen(&mut self, bench: &Bench) {
        self.client.write_all(b"it happened").unwrap();
        self.late = Some(TcpStream::connect(bench.driver.local_address(self.listener).unwrap().ip().unwrap()).unwrap());
    }

    fn close(self, bench: &mut Bench) {
        bench.driver.close_now(self.listener.owned());
        bench.driver.close_now(self.fd.owned());
    }
}

/// Brings `op` to a stage.
fn bring(bench: &mut Bench, scene: &mut Scene, op: Op, stage: Stage) -> Key {
    let key = bench.submit(op, 1);
    if stage != Stage::Queued {
        bench.settle();
    }
    if stage == Stage::Over {
        scene.happen(bench);
        bench.settle();
    }
    key
}

/// Brings each operation that can wait to each stage, and has it ended there. Afterwards nothing more comes, and
/// nothing is in flight.
fn at_every_stage(end: impl Fn(&mut Bench, Key, Stage), then: impl Fn(&mut Bench, &mut Scene)) {
    in_each_mode(DriverConfig::default(), |bench| {
        for stage in STAGES {
            for which in 0..4 {
                let mut scene = Scene::new(bench);
                let op = scene.waiting_ops(bench).swap_remove(which);
                let key = bring(bench, &mut scene, op, stage);
                end(bench, key, stage);
                bench.assert_quiet();
                assert_eq!(bench.driver.in_flight(), 0, "{stage:?} {which}");
                then(bench, &mut scene);
                scene.close(bench);
            }
        }
    });
}

#[test]
fn a_cancelled_operation_has_one_completion_at_every_stage() {
    let cancel = |bench: &mut Bench, key: Key, stage: Stage| {
        bench.driver.cancel(key);
        bench.driver.cancel(key);
        let completion = bench.completion();
        assert_eq!(completion.key, key);
        let allowed = completion.result == Err(Errno::CANCELED) || (stage == Stage::Over && completion.result.is_ok());
        assert!(allowed, "{stage:?} {completion:?}");
        if let Payload::Fd(fd) = completion.payload {
            bench.driver.close_now(fd);
        }
    };
    at_every_stage(cancel, |_bench, _scene| {});
}

#[test]
fn an_orphan_is_disposed_of_at_every_stage() {
    at_every_stage(
        |bench, key, _stage| bench.driver.orphan(key),
        |bench, scene| {
            // A connection that nobody accepted is still there to be accepted.
            if let Some(mut late) = scene.late.take() {
                let accepted = bench.driver.accept_now(scene.listener).unwrap().expect("not lost");
                bench.driver.close_now(accepted);
                assert_eq!(late.read(&mut [0; 1]).unwrap(), 0);
            }
        },
    );
}

#[test]
fn leases_come_back_from_cancelled_and_orphaned_operations() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (_client, fd) = bench.connection();
        let room = bench.room(4_096);
        let address = room.as_ptr();
        let key = bench.submit(Op::ReceiveInto { fd, lease: room }, 0);
        bench.settle();
        bench.driver.cancel(key);
        let lease = lease_of(bench.completion());
        assert_eq!((lease.as_ptr(), lease.len()), (address, 0), "the lease itself");
        drop(lease);
        let charged = bench.budget.charged();
        for _ in 0..200 {
            let lease = bench.room(128 << 10);
            let key = bench.submit(Op::ReceiveInto { fd, lease }, 0);
            bench.settle();
            bench.driver.orphan(key);
            bench.assert_settled();
        }
        assert!(bench.budget.charged() <= charged + (1 << 20), "not 25 MiB");
        bench.driver.close_now(fd.owned());
    });
}

#[test]
fn an_orphaned_open_closes_what_it_opened() {
    in_best_mode(DriverConfig::default(), |bench| {
        let scratch = Scratch::new("orphaned-open");
        for stage in STAGES {
            for _ in 0..20 {
                let path = bench.path(&scratch.0);
                let key = bench.submit(Op::Open { path, flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600 }, 0);
                if stage != Stage::Queued {
                    bench.settle();
                }
                if stage == Stage::Over {
                    bench.driver.enter(Wait::Until(sys::now() + Duration::from_millis(20))).unwrap();
                }
                bench.driver.orphan(key);
                bench.assert_settled();
            }
            assert_eq!(scratch.descriptors(), 0, "{stage:?}");
        }
    });
}

#[test]
fn a_cancel_that_meets_its_operation_between_two_tries_is_made_again() {
    in_each_mode(DriverConfig::default(), |bench| {
        for _ in 0..20 {
            let (mut client, fd) = bench.connection();
            client.write_all(b"for one of them").unwrap();
            // Ready at once, so that the first is on its way to its bytes when the cancel looks for it, and the second
            // has them first.
            let first = bench.submit(Op::Receive { fd }, 1);
            bench.driver.cancel(first);
            let lease = bench.room(64);
            let second = bench.submit(Op::ReceiveInto { fd, lease }, 2);
            let completion = bench.completion();
            let other = if completion.key == first { second } else { first };
            bench.driver.cancel(other);
            let completion = bench.completion();
            assert_eq!(completion.key, other);
            bench.driver.close_now(fd.owned());
        }
    });
}

#[test]
fn a_close_is_not_cancelled_by_giving_it_up() {
    in_best_mode(DriverConfig::default(), |bench| {
        let (mut client, fd) = bench.connection();
        let receive = bench.submit(Op::Receive { fd }, 0);
        bench.settle();
        bench.driver.orphan(receive);
        bench.driver.close(fd.owned());
        bench.assert_settled();
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn the_exit_ends_everything_that_waits() {
    in_each_mode(DriverConfig::default(), |bench| {
        let mut scenes: Vec<Scene> = (0..20).map(|_| Scene::new(bench)).collect();
        for scene in &mut scenes {
            for op in scene.waiting_ops(bench) {
                bench.submit(op, 0);
            }
        }
        bench.settle();
        scenes[0].happen(bench);
        let before = sys::now();
        bench.finish();
        assert!(sys::now() - before < Duration::from_secs(10));
        for scene in scenes {
            sys::close(scene.listener).unwrap();
            sys::close(scene.fd).unwrap();
        }
    });
}

#[test]
fn the_exit_waits_for_reads_in_flight() {
    const FILE_BYTES: usize = 64 << 20;
    const READ_BYTES: usize = 128 << 10;
    in_best_mode(DriverConfig::default(), |bench| {
        let scratch = Scratch::new("reads");
        let mut file = std::fs::File::create(&scratch.0).unwrap();
        for _ in 0..FILE_BYTES >> 20 {
            file.write_all(&vec![0x55; 1 << 20]).unwrap();
        }
        file.sync_all().unwrap();
        drop(file);
        // Past the page cache, so that the reads take their time.
        let fd = bench.open(&scratch.0, libc::O_RDONLY | libc::O_DIRECT);
        for at in 0..128 {
            let lease = bench.room(READ_BYTES);
            bench.submit(Op::ReadAt { fd, lease, offset: (at * READ_BYTES) as u64 }, at as u32);
        }
        // Some operations always run on worker threads of the kernel.
        for _ in 0..8 {
            bench.submit(Op::Fsync { fd, data_only: false }, 1_000);
        }
        bench.settle();
        bench.finish();
        assert_eq!(scratch.descriptors(), 1, "it was not the driver's to close");
        sys::close(fd).unwrap();
    });
}

#[test]
fn worker_threads_of_the_kernel_write_nothing_after_the_last_completion() {
    let Ok(mode) = probe() else { return };
    let Some(bench) = Bench::new(mode, &DriverConfig::default()) else { return };
    let scratch = Scratch::new("workers");
    std::fs::write(&scratch.0, vec![0x55; 8 << 20]).unwrap();
    let file = std::fs::File::open(&scratch.0).unwrap();
    let fd = Number::from_raw(std::os::fd::AsRawFd::as_raw_fd(&file));
    for _ in 0..10 {
        let Some(mut uring) = bench.backend(mode, &DriverConfig::default()) else { return };
        let mut slots = Slots::new();
        let keys: Vec<Key> = (0..64)
            .map(|at| {
                let mut lease = bench.room(128 << 10);
                lease.extend(&[0xaa; 1]);
                let key = slots.insert(&bench.pool, Op::ReadAt { fd, lease, offset: at << 17 }, Token(0)).unwrap();
                let op = &mut slots.get_mut(key).unwrap().op;
                assert!(uring.ring.push(&Entry::call(key, op, None).on_worker()));
                key
            })
            .collect();
        uring.enter(Wait::No, &mut slots).unwrap();
        for key in keys {
            slots.get_mut(key).unwrap().state = SlotState::Cancelling;
            uring.cancel(key, &mut slots);
        }
        let mut leases = Vec::new();
        while slots.len() > 0 {
            uring.enter(Wait::Until(sys::now() + Duration::from_secs(1)), &mut slots).unwrap();
            while let Some(raw) = uring.next(&mut slots) {
                let Some(Finished::Completed(completion)) = slots.finish(raw) else { panic!("nothing was orphaned") };
                leases.push(lease_of(completion));
            }
        }
        drop(uring);
        // What was read says so; in the rest nothing moves any more.
        let mut room: Vec<Vec<u8>> = Vec::new();
        for lease in &mut leases {
            assert!(lease[1..].iter().all(|byte| *byte == 0x55));
            let free = lease.spare_capacity();
            assert_eq!(lease.extend(&vec![0xcc; free]), free);
            room.push(lease.to_vec());
        }
        std::thread::sleep(Duration::from_millis(10));
        assert!(leases.iter().zip(&room).all(|(lease, before)| **lease == **before));
    }
}

#[test]
fn what_is_in_flight_at_the_deadline_is_leaked_and_reported() {
    let Ok(mode) = probe() else { return };
    let Some(mut bench) = Bench::new(mode, &DriverConfig::default()) else { return };
    let (_client, fd) = bench.connection();
    for _ in 0..3 {
        let lease = bench.room(128 << 10);
        bench.submit(Op::ReceiveInto { fd, lease }, 0);
    }
    bench.settle();
    let fixed = bench.driver.fixed_bytes();
    let report = bench.driver.shutdown(Instant::from_nanos(0));
    assert_eq!(report.in_flight, 3);
    assert!(report.leaked_bytes >= 3 * (128 << 10) + fixed, "{report:?}");
    let Bench { driver, budget, .. } = bench;
    drop(driver);
    assert!(budget.charged() >= report.leaked_bytes, "leaked memory stays charged");
    sys::close(fd).unwrap();
}

#[test]
fn what_sends_share_is_leaked_once() {
    let Ok(mode) = probe() else { return };
    let Some(mut bench) = Bench::new(mode, &DriverConfig::default()) else { return };
    let connections = bench.connections(4);
    let messages = [7, 8].map(|byte| {
        let mut lease = bench.room(128 << 10);
        while lease.extend(&[byte; 4_096]) > 0 {}
        SharedBytes::new(lease, &bench.budget).unwrap()
    });
    // More than the sockets take, so that some of each are in flight at the end.
    for _ in 0..40 {
        for (at, (_, fd)) in connections.iter().enumerate() {
            bench.submit(Op::Send { fd: *fd, bytes: SendBytes::Shared(messages[at % 2].clone()) }, 0);
        }
    }
    bench.settle();
    let fixed = bench.driver.fixed_bytes();
    let report = bench.driver.shutdown(Instant::from_nanos(0));
    assert!(report.in_flight > 2, "{report:?}");
    let message = (128 << 10) + SharedBytes::OVERHEAD_BYTES as u64;
    let slots = report.leaked_bytes - fixed - 2 * message;
    assert!((4_096..=4 * 4_096).contains(&slots), "{slots} bytes of slots");
    connections.iter().for_each(|(_, fd)| sys::close(*fd).unwrap());
}

/// A watch holds its file open, and a leaked ring lives as long as its thread.
#[test]
fn a_leaked_ring_keeps_no_connection_open() {
    in_each_leaking_mode(|bench, is_submitted| {
        let (mut idle, watched) = bench.connection();
        let (_stuck, fd) = bench.connection();
        let lease = bench.room(4_096);
        bench.submit(Op::ReceiveInto { fd, lease }, 0);
        idle.write_all(b"heard").unwrap();
        let first = bench.run(Op::Receive { fd: watched });
        assert_eq!(received(&first), b"heard");
        drop(first);
        if is_submitted {
            bench.submit(Op::Receive { fd: watched }, 1);
            bench.settle();
        }
        let report = bench.driver.shutdown(Instant::from_nanos(0));
        assert!(report.in_flight >= 1, "something is leaked: {report:?}");
        bench.driver.close_now(watched.owned());
        assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0, "the peer sees the end");
        sys::close(fd).unwrap();
    });
}

/// The watch is queued and not with the kernel yet when the driver ends.
#[test]
fn a_leaked_ring_keeps_no_connection_open_that_it_was_about_to_watch() {
    in_each_leaking_mode(|bench, is_submitted| {
        let (mut idle, watched) = bench.connection();
        let (_stuck, fd) = bench.connection();
        let lease = bench.room(4_096);
        bench.submit(Op::ReceiveInto { fd, lease }, 0);
        bench.submit(Op::Receive { fd: watched }, 1);
        if is_submitted {
            bench.settle();
        }
        bench.driver.shutdown(Instant::from_nanos(0));
        bench.driver.close_now(watched.owned());
        assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0, "the peer sees the end");
        sys::close(fd).unwrap();
    });
}

/// Runs `test` with a driver that receives by watches and will be leaked, with and without a turn before that.
fn in_each_leaking_mode(test: impl Fn(&mut Bench, bool)) {
    for is_submitted in [true, false] {
        let Some(mut bench) = Bench::new(ReceiveMode::Poll, &DriverConfig::default()) else { return };
        test(&mut bench, is_submitted);
    }
}

#[test]
fn fixed_memory_is_charged_and_given_back() {
    in_each_mode(DriverConfig::default(), |bench| {
        let fixed = bench.driver.fixed_bytes();
        // 64 KiB of entries, 64 KiB of completions and their index, four buffers, and a page at most of their entries.
        assert!((384 << 10..(512 << 10) + plimsoll_pool::page_bytes() as u64).contains(&fixed), "{fixed}");
        assert!(bench.budget.charged_by(Kind::Rings) >= fixed);
        bench.finish();
        assert_eq!(bench.budget.charged_by(Kind::Rings), 0);
    });
}

impl Bench {
    /// Waits until nothing is in flight; everything was given up.
    fn assert_settled(&mut self) {
        let deadline = sys::now() + Duration::from_secs(5);
        while self.driver.in_flight() > 0 {
            assert!(sys::now() < deadline, "{} in flight", self.driver.in_flight());
            self.driver.enter(Wait::Until(deadline)).unwrap();
            assert!(self.driver.reap().is_none());
        }
    }
}
