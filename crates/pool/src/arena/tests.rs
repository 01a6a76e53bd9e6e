//! Properties, on the real system: the mapping holds no more than what is charged, page for page, is not inherited by
//! forks and has no huge pages; a pool without addresses is a clear error (sanitizers need addresses too: skip
//! `under_a_limit` with them). What leases do is tested in `pool`.
//!
//! **I-ALONE**: a child process that runs one test changes limits that concern nobody else.

use std::process::Command;

use super::*;
use crate::{Lease, MemoryLimit, Pool, PoolConfig};

/// Bytes of the region around `at` that are resident, and the flags of its mappings.
fn resident(at: usize) -> (u64, Vec<String>) {
    let region = at & !(REGION_BYTES - 1);
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut bytes, mut flags, mut inside) = (0, Vec::new(), false);
    for line in smaps.lines() {
        let word = line.split_whitespace().next().unwrap_or_default();
        if let Some((start, end)) = word.split_once('-') {
            let parse = |text| usize::from_str_radix(text, 16).unwrap();
            inside = parse(start) >= region && parse(end) <= region + REGION_BYTES;
        } else if inside && word == "Rss:" {
            bytes += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
        } else if inside && word == "VmFlags:" {
            flags.push(line.to_owned());
        }
    }
    (bytes, flags)
}

fn touch(lease: &mut Lease) {
    let len = lease.spare_capacity();
    lease.spare_mut().iter_mut().step_by(512).for_each(|byte| _ = byte.write(1));
    assert!(len >= 64);
}

#[test]
fn resident_memory_is_what_is_charged() {
    let budget = Budget::new(MemoryLimit::mib(16));
    let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
    let mut leases = Vec::new();
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for round in 0..4000 {
        match next(10) {
            0..6 => {
                if let Ok(mut lease) = pool.try_acquire_class(Class::ALL[next(Class::COUNT)], Kind::Buffers) {
                    touch(&mut lease);
                    leases.push(lease);
                }
            }
            6..9 if !leases.is_empty() => drop(leases.swap_remove(next(leases.len()))),
            _ => _ = pool.release_free(next(400_000) as u64),
        }
        if round % 100 == 0 {
            // Everything was touched, so nothing is charged that is not there, but the bookkeeping on the heap.
            let stats = pool.stats();
            let header = leases.first().map_or(0, |lease| resident(lease.as_ptr().addr()).0);
            if header > 0 {
                assert_eq!(header, stats.charged_bytes - stats.fixed_bytes + page_bytes() as u64);
            }
            assert!(budget.charged() <= 16 << 20);
        }
    }
    let at = leases[0].as_ptr().addr();
    leases.clear();
    pool.release_free(u64::MAX);
    assert_eq!(resident(at).0, page_bytes() as u64, "all but the header is back with the system");
    assert_eq!(budget.charged(), pool.stats().fixed_bytes);
    drop(pool);
    // The pool of another test may have got them since: they are free again when that one ends.
    let is_free = (0..3_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        resident(at).1.is_empty()
    });
    assert!(is_free, "and the addresses too");
}

#[test]
fn one_touched_byte_is_one_page() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(64)), PoolConfig::default()).unwrap();
    let leases: Vec<Lease> = (0..200).map(|_| pool.try_copy(b"x", Kind::Buffers).unwrap()).collect();
    let big = pool.try_acquire(131_072, Kind::Buffers).unwrap();
    let (bytes, flags) = resident(leases[0].as_ptr().addr());
    // The large lease was not touched: charged, as it may become resident at any time, but not there.
    assert_eq!(bytes, 5 * page_bytes() as u64);
    assert_eq!(pool.budget().charged_by(Kind::Buffers), 4 * page_bytes() as u64 + 131_072);
    assert!(flags.iter().all(|line| line.contains(" dc")), "not copied on fork: {flags:?}");
    assert!(flags.iter().all(|line| line.contains(" nh")), "no huge pages: {flags:?}");
    drop(big);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_without_addresses() {
    let budget = Budget::new(MemoryLimit::mib(64));
    let limit = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
    // SAFETY: I-ALONE.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let error = Pool::new(&budget, PoolConfig::default()).unwrap_err();
    assert_eq!(error, Error::Reserve { bytes: 64 << 30, errno: 12 });
    assert!(error.to_string().contains("ulimit -v"));
    assert_eq!((budget.charged(), budget.credited()), (0, 0), "nothing stays charged");
}

#[test]
fn under_a_limit_of_addresses_the_error_is_clear() {
    let test = std::env::current_exe().unwrap();
    let output =
        Command::new(test).args(["--exact", "arena::tests::child_without_addresses", "--ignored"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text} {}", String::from_utf8_lossy(&output.stderr));
}
