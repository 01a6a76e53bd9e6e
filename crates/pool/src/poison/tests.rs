//! Properties, each in a child process that does what it must not and has to die of it: slots are not touched after
//! they were given back, in whatever way that was, nor before they are handed out, nor behind a value. And what is
//! allowed stays allowed: a child that only does that lives.
//!
//! **I-MEANT**: the addresses are mapped, and nobody else uses them: the child has one thread here, ends at the access
//! that it means, and its parent wants it to.

use std::process::Command;

use super::*;
use crate::{Budget, Class, Kind, Lease, MemoryLimit, Pool, PoolBox, PoolConfig};

/// What the child is to do.
const VARIABLE: &str = "PLIMSOLL_MISDEED";

const MISDEEDS: [(&str, fn(&Pool)); 14] = [
    ("read_of_a_dropped_lease", |pool| read(dropped(pool, Class::B64))),
    ("read_of_a_dropped_page", |pool| read(dropped(pool, Class::K4))),
    ("read_of_the_last_byte", |pool| {
        let start = dropped(pool, Class::K128);
        // SAFETY: I-MEANT.
        read(unsafe { start.add(Class::K128.bytes() - 1) });
    }),
    ("write_of_a_dropped_lease", |pool| write(dropped(pool, Class::B512))),
    ("after_the_magazine", |pool| {
        // More than it has room for, so that some are in the bitmaps only.
        let leases: Vec<Lease> = (0..200).map(|_| lease(pool, Class::B64)).collect();
        let last = start(&leases[199]);
        drop(leases);
        read(last);
    }),
    ("after_a_drop_elsewhere", |pool| {
        let lease = lease(pool, Class::B256);
        let start = start(&lease);
        lease.drop_remotely();
        read(start);
    }),
    ("the_link_after_a_drop_elsewhere", |pool| {
        let lease = lease(pool, Class::B256);
        let start = start(&lease);
        lease.drop_remotely();
        write(start);
    }),
    ("after_a_drain", |pool| {
        let lease = lease(pool, Class::B256);
        let start = start(&lease);
        lease.drop_remotely();
        assert_eq!(pool.drain_remote(), 1);
        read(start);
    }),
    ("after_the_page_went_back", |pool| {
        let start = dropped(pool, Class::K16);
        assert!(pool.release_free(u64::MAX) >= 16 << 10);
        read(start);
    }),
    ("after_a_drop_without_a_pool", |_| {
        let pool = pool();
        let kept = lease(&pool, Class::B64);
        let last = lease(&pool, Class::B64);
        let start = start(&last);
        drop(pool);
        drop(last);
        read(start);
        drop(kept);
    }),
    ("never_handed_out", |pool| {
        let lease = lease(pool, Class::B1024);
        // SAFETY: I-MEANT: the next slot of the same page.
        read(unsafe { start(&lease).add(Class::B1024.bytes()) });
    }),
    ("a_box_after_its_drop", |pool| {
        let boxed = boxed(pool);
        let place = NonNull::from(&*boxed).cast();
        drop(boxed);
        read(place);
    }),
    ("a_box_after_its_value_moved_out", |pool| {
        let boxed = boxed(pool);
        let place = NonNull::from(&*boxed).cast();
        let _value = boxed.into_inner();
        read(place);
    }),
    ("behind_the_value_of_a_box", |pool| {
        let boxed = boxed(pool);
        // SAFETY: I-MEANT: in the same slot.
        write(unsafe { NonNull::from(&*boxed).cast::<u8>().add(size_of::<[u8; 65]>()) });
        drop(boxed);
    }),
];

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(64)), PoolConfig::default()).unwrap()
}

fn lease(pool: &Pool, class: Class) -> Lease {
    let mut lease = pool.try_acquire_class(class, Kind::Buffers).unwrap();
    lease.extend(b"a word of 16 byt");
    lease
}

fn boxed(pool: &Pool) -> PoolBox<[u8; 65]> {
    pool.try_boxed([7; 65], Kind::Codec).unwrap()
}

fn start(lease: &Lease) -> NonNull<u8> {
    NonNull::new(lease.as_ptr()).unwrap()
}

/// Where a lease was.
fn dropped(pool: &Pool, class: Class) -> NonNull<u8> {
    start(&lease(pool, class))
}

fn read(at: NonNull<u8>) {
    // SAFETY: I-MEANT.
    let _byte = unsafe { at.read_volatile() };
}

fn write(at: NonNull<u8>) {
    // SAFETY: I-MEANT.
    unsafe { at.write_volatile(1) };
}

/// Everything that a holder may do, with slots that were others' before; and addresses of a pool that has ended are
/// anybody's.
fn allowed(pool: &Pool) {
    for class in Class::ALL {
        for _round in 0..3 {
            let mut leases: Vec<Lease> = (0..20).map(|_| lease(pool, class)).collect();
            for lease in &mut leases {
                lease.spare_mut().fill(core::mem::MaybeUninit::new(3));
                read(start(lease));
            }
            leases.drain(..10).for_each(Lease::drop_remotely);
            drop(leases);
            pool.drain_remote();
            pool.release_free(1 << 20);
        }
    }
    drop(boxed(pool));
    drop(
        pool.try_acquire_class(PoolBox::<[u8; 65]>::CLASS, Kind::Buffers)
            .map(|lease| PoolBox::from_lease(lease, [1_u8; 65])),
    );
    let first = self::pool();
    let at = dropped(&first, Class::B64);
    drop(first);
    // SAFETY: I-MEANT: the addresses are free; a mapping goes nowhere else if they are not.
    let map = unsafe {
        let page = at.as_ptr().map_addr(|address| address & !4095).cast();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(page, 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert_ne!(map, libc::MAP_FAILED, "the pool's addresses are free");
    write(at);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_that_does_what_it_is_told() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    match MISDEEDS.iter().find(|(name, _)| *name == told) {
        Some((_, misdeed)) => misdeed(&pool()),
        None => allowed(&pool()),
    }
}

/// Whether the child lived, and what it said.
fn child(told: &str) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "poison::tests::child_that_does_what_it_is_told", "--ignored", "--nocapture"]);
    let output = command.env(VARIABLE, told).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

#[test]
fn the_sanitizer_finds_what_is_touched_and_not_held() {
    for (misdeed, _) in MISDEEDS {
        let (lived, text) = child(misdeed);
        assert!(!lived, "{misdeed} was not found: {text}");
        assert!(text.contains("AddressSanitizer: use-after-poison"), "{misdeed}: {text}");
        assert!(text.contains("poison::tests::"), "{misdeed}: it names the access: {text}");
    }
}

#[test]
fn the_sanitizer_is_silent_about_what_is_held() {
    let (lived, text) = child("nothing");
    assert!(lived && text.contains("1 passed"), "{text}");
}
