//! Files.
#![forbid(unsafe_code)]

use super::{Bench, path};
use crate::fd::Number;
use crate::*;

#[test]
fn files_are_read_written_and_described() {
    let mut bench = Bench::clean();
    bench.world.place_file("/srv/index.html", b"hello".to_vec()).expect("no directory in the way");
    let open = |bench: &mut Bench, name: &str, flags: i32| {
        let path = path(bench, name);
        let done = bench.run(Op::Open { path, flags, mode: 0o640 });
        done.result.map(|_| done.fd.expect("an open brings a descriptor"))
    };
    let errno = |result: Result<Number, i32>| result.expect_err("it must fail");
    assert_eq!(errno(open(&mut bench, "/srv/none", libc::O_RDONLY)), libc::ENOENT);
    assert_eq!(errno(open(&mut bench, "/none/none", libc::O_CREAT | libc::O_WRONLY)), libc::ENOENT);
    assert_eq!(errno(open(&mut bench, "/srv/index.html/x", libc::O_CREAT)), libc::ENOTDIR);
    assert_eq!(errno(open(&mut bench, "/srv", libc::O_RDWR)), libc::EISDIR);
    assert_eq!(errno(open(&mut bench, "/srv/index.html", libc::O_DIRECTORY)), libc::ENOTDIR);
    assert_eq!(errno(open(&mut bench, "/srv/index.html", libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY)), libc::EEXIST);

    let fd = open(&mut bench, "/srv/new", libc::O_CREAT | libc::O_RDWR).expect("it is made");
    let lease = bench.bytes(b"world");
    let written = bench.run(Op::WriteAt { fd, lease, offset: 3 });
    assert_eq!((written.result, written.bytes), (Ok(5), b"world".to_vec()));
    let mut lease = bench.lease(64);
    lease.extend(b"> ");
    let read = bench.run(Op::ReadAt { fd, lease, offset: 1 });
    assert_eq!((read.result, read.bytes), (Ok(7), b"> \0\0world".to_vec()));
    let lease = bench.lease(64);
    assert_eq!(bench.run(Op::ReadAt { fd, lease, offset: 8 }).result, Ok(0));
    assert_eq!(bench.run(Op::Fsync { fd, data_only: true }).result, Ok(0));
    assert_eq!(bench.world.file("/srv/new"), Some(b"\0\0\0world".to_vec()));

    let lease = bench.lease(256);
    let stat = bench.run(Op::Stat { fd, lease });
    assert_eq!((stat.result, stat.bytes.len()), (Ok(256), 256));
    assert_eq!(stat.bytes[28..30], 0o100640_u16.to_ne_bytes(), "stx_mode");
    assert_eq!(stat.bytes[40..48], 8_u64.to_ne_bytes(), "stx_size");
    assert_eq!(size_of::<libc::statx>(), 256);
    bench.driver.close_now(fd.owned());

    let fd = open(&mut bench, "srv/./new", libc::O_WRONLY | libc::O_TRUNC | libc::O_APPEND).expect("it is there");
    for _ in 0..2 {
        let lease = bench.bytes(b"ab");
        assert_eq!(bench.run(Op::WriteAt { fd, lease, offset: 0 }).result, Ok(2));
    }
    assert_eq!(bench.world.file("/srv/new"), Some(b"abab".to_vec()));
    let lease = bench.lease(64);
    assert_eq!(bench.run(Op::ReadAt { fd, lease, offset: 0 }).result, Err(libc::EBADF));
    assert_eq!(bench.receive(fd), Err(libc::ENOTSOCK));
    let lease = bench.bytes(b"x");
    bench.driver.close_now(fd.owned());
    assert_eq!(bench.run(Op::WriteAt { fd, lease, offset: 0 }).result, Err(libc::EBADF));
}
