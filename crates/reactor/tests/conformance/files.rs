//! Files: open, write, read, stat, sync.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_reactor::{Fd, Op, Token};

use crate::bench::{Bench, Ticket, pattern};

fn open(bench: &mut Bench, name: &str, flags: i32) -> Fd {
    let path = bench.path(name);
    bench.run(Op::Open { path, flags, mode: 0o640 }).descriptor()
}

fn write(bench: &mut Bench, fd: &Fd, bytes: &[u8], offset: u64) {
    let lease = bench.lease(bytes);
    let answer = bench.run(Op::WriteAt { fd: fd.at(), lease, offset }).ok();
    assert_eq!(answer.result, Ok(bytes.len() as u32));
    assert_eq!(&*answer.lease.expect("the lease comes back"), bytes, "unchanged");
}

fn size(bench: &mut Bench, fd: &Fd) -> u64 {
    let lease = bench.room(256);
    let answer = bench.run(Op::Stat { fd: fd.at(), lease }).ok();
    assert_eq!(answer.result, Ok(256));
    let stat = answer.lease.expect("the lease comes back");
    assert_eq!(stat.len(), 256);
    let at = core::mem::offset_of!(libc::statx, stx_size);
    u64::from_ne_bytes(*stat[at..].first_chunk().expect("inside the structure"))
}

pub(crate) fn round_trip(bench: &mut Bench) {
    let file = open(bench, "round-trip", libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
    write(bench, &file, b"hello, file", 0);
    write(bench, &file, b"F", 7);
    assert_eq!(bench.run(Op::Fsync { fd: file.at(), data_only: true }).result, Ok(0));
    assert_eq!(bench.run(Op::Fsync { fd: file.at(), data_only: false }).result, Ok(0));
    assert_eq!(size(bench, &file), 11);
    let mut lease = bench.room(64);
    lease.extend(b"> ");
    let answer = bench.run(Op::ReadAt { fd: file.at(), lease, offset: 5 }).ok();
    assert_eq!(answer.result, Ok(6));
    assert_eq!(&*answer.lease.expect("the lease comes back"), b"> , File", "behind what it showed");
    // Writing behind the end leaves zeroes between.
    write(bench, &file, b"!", 15);
    assert_eq!(bench.file("round-trip").expect("it exists"), b"hello, File\0\0\0\0!");
    bench.close(file);
    let again = open(bench, "round-trip", libc::O_RDONLY);
    assert_eq!(size(bench, &again), 16);
    bench.close(again);
    let cut = open(bench, "round-trip", libc::O_WRONLY | libc::O_TRUNC);
    assert_eq!(size(bench, &cut), 0);
    bench.close(cut);
}

/// The kernel may not read past what a lease shows: there are others' bytes.
pub(crate) fn paths_end(bench: &mut Bench) {
    for path in [&b"/dev/null"[..], b"", b"/dev/null\0more\0", b"/dev/null\0more"] {
        let path = bench.lease(path);
        let op = Op::Open { path, flags: libc::O_RDONLY, mode: 0 };
        let submitted = catch_unwind(AssertUnwindSafe(|| bench.driver.submit(op, Token(0)).map(|_| ())));
        assert!(submitted.is_err(), "a misuse that is told at once");
    }
}

pub(crate) fn errors(bench: &mut Bench) {
    let path = bench.path("nowhere");
    let missing = bench.run(Op::Open { path, flags: libc::O_RDONLY, mode: 0 });
    assert_eq!(missing.errno(), libc::ENOENT);
    let path = bench.path("nowhere/below");
    assert_eq!(bench.run(Op::Open { path, flags: libc::O_RDONLY, mode: 0 }).errno(), libc::ENOENT);
    let file = open(bench, "only-written", libc::O_WRONLY | libc::O_CREAT);
    let path = bench.path("only-written");
    let again = bench.run(Op::Open { path, flags: libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode: 0o600 });
    assert_eq!(again.errno(), libc::EEXIST);
    let lease = bench.room(64);
    let answer = bench.run(Op::ReadAt { fd: file.at(), lease, offset: 0 });
    assert_eq!(answer.errno(), libc::EBADF, "not open for reading");
    assert!(answer.lease.expect("the lease comes back").is_empty());
    bench.close(file);
    let file = open(bench, "only-written", libc::O_RDONLY);
    let lease = bench.lease(b"x");
    let answer = bench.run(Op::WriteAt { fd: file.at(), lease, offset: 0 });
    assert_eq!(answer.errno(), libc::EBADF, "not open for writing");
    assert_eq!(&*answer.lease.expect("the lease comes back"), b"x");
    bench.close(file);
}

pub(crate) fn large_file(bench: &mut Bench) {
    const BYTES: usize = 16 << 20;
    const PIECE: usize = 128 * 1024;
    let file = open(bench, "large", libc::O_RDWR | libc::O_CREAT);
    // Eight pieces in flight at a time, answered in any order.
    let offsets: Vec<usize> = (0..BYTES).step_by(PIECE).collect();
    for batch in offsets.chunks(8) {
        let writes: Vec<Ticket> = batch
            .iter()
            .map(|&offset| {
                let lease = bench.lease(&pattern(offset, PIECE));
                bench.start(Op::WriteAt { fd: file.at(), lease, offset: offset as u64 })
            })
            .collect();
        for (write, &offset) in writes.into_iter().zip(batch) {
            let mut answer = bench.answer(write).ok();
            // A write may be short, and is then continued.
            let mut done = answer.result.expect("written") as usize;
            while done < PIECE {
                let mut lease = answer.lease.take().expect("the lease comes back");
                lease.consume(answer.result.expect("written") as usize);
                answer = bench.run(Op::WriteAt { fd: file.at(), lease, offset: (offset + done) as u64 }).ok();
                done += answer.result.expect("written") as usize;
            }
        }
    }
    assert_eq!(size(bench, &file), BYTES as u64);
    for batch in offsets.chunks(8) {
        let reads: Vec<Ticket> = batch
            .iter()
            .map(|&offset| {
                let lease = bench.room(PIECE);
                bench.start(Op::ReadAt { fd: file.at(), lease, offset: offset as u64 })
            })
            .collect();
        for (read, &offset) in reads.into_iter().zip(batch) {
            let mut lease = bench.answer(read).ok().lease.expect("the lease comes back");
            while lease.len() < PIECE {
                let at = (offset + lease.len()) as u64;
                lease = bench
                    .run(Op::ReadAt { fd: file.at(), lease, offset: at })
                    .ok()
                    .lease
                    .expect("the lease comes back");
            }
            assert!(*lease == *pattern(offset, PIECE), "the piece at {offset}");
        }
    }
    bench.close(file);
}

pub(crate) fn short_reads_at_the_end(bench: &mut Bench) {
    let file = open(bench, "short", libc::O_RDWR | libc::O_CREAT);
    write(bench, &file, &pattern(0, 100), 0);
    for (offset, expected) in [(0, 100), (90, 10), (100, 0), (1 << 40, 0)] {
        let lease = bench.room(4_096);
        let answer = bench.run(Op::ReadAt { fd: file.at(), lease, offset });
        assert_eq!(answer.result, Ok(expected), "at {offset}");
        assert_eq!(answer.lease.expect("the lease comes back").len(), expected as usize);
    }
    bench.close(file);
}

pub(crate) fn many_at_once(bench: &mut Bench) {
    const WRITES: usize = 300;
    let file = open(bench, "many", libc::O_RDWR | libc::O_CREAT);
    let writes: Vec<_> = (0..WRITES)
        .map(|place| {
            let lease = bench.lease(&[place as u8; 10]);
            bench.start(Op::WriteAt { fd: file.at(), lease, offset: place as u64 * 10 })
        })
        .collect();
    for write in writes {
        assert_eq!(bench.answer(write).result, Ok(10));
    }
    let bytes = bench.file("many").expect("it exists");
    assert_eq!(bytes.len(), WRITES * 10);
    assert!(bytes.chunks(10).enumerate().all(|(place, chunk)| chunk == [place as u8; 10]));
    bench.close(file);
}

/// Closing a file under its writes never lets them hit the file that has the number next.
pub(crate) fn close_waits_for_writes(bench: &mut Bench) {
    for round in 0..10_u8 {
        let first = open(bench, "first", libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC);
        let writes: Vec<_> = (0..20)
            .map(|place| {
                let lease = bench.lease(&[round; 2_000]);
                bench.start(Op::WriteAt { fd: first.at(), lease, offset: place * 2_000 })
            })
            .collect();
        for write in &writes {
            bench.driver.orphan(write.key);
        }
        // Both ways to close.
        if round % 2 == 0 {
            bench.driver.close(first);
        } else {
            bench.driver.enter(plimsoll_reactor::Wait::No).expect("a look");
            bench.reap();
            bench.driver.close_now(first);
        }
        let second = open(bench, "second", libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC);
        bench.settle();
        assert_eq!(bench.file("second").expect("it exists"), b"", "only the first was written to");
        bench.close(second);
    }
}
