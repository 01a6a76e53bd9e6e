//! Properties: a lease's view is as a `Vec` that is appended to at the end and consumed at the front, within the
//! capacity; a lease is 16 bytes; raw leases keep their slot.

use proptest::prelude::*;

use super::*;
use crate::{Budget, MemoryLimit, Pool, PoolConfig};

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Extend(Vec<u8>),
    Write(Vec<u8>),
    Consume(usize),
    Truncate(usize),
    Compact,
    Clear,
    Change(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        4 => bytes.clone().prop_map(Op::Extend),
        2 => bytes.prop_map(Op::Write),
        4 => (0_usize..200).prop_map(Op::Consume),
        1 => (0_usize..200).prop_map(Op::Truncate),
        1 => Just(Op::Compact),
        1 => Just(Op::Clear),
        1 => any::<u8>().prop_map(Op::Change),
    ]
}

proptest! {
    #[test]
    fn the_view_is_as_a_vector(len in 1_usize..700, ops in prop::collection::vec(op(), 1..60)) {
        let pool = pool();
        let mut lease = pool.try_acquire(len, Kind::Codec).unwrap();
        let class = lease.class();
        prop_assert!(class.bytes() >= len);
        let (mut model, mut consumed) = (Vec::new(), 0);
        for op in ops {
            let room = class.bytes() - consumed - model.len();
            match op {
                Op::Extend(bytes) => {
                    let taken = lease.extend(&bytes);
                    prop_assert_eq!(taken, bytes.len().min(room));
                    model.extend_from_slice(&bytes[..taken]);
                }
                Op::Write(bytes) => {
                    let taken = bytes.len().min(lease.spare_mut().len());
                    lease.spare_mut()[..taken].write_copy_of_slice(&bytes[..taken]);
                    // SAFETY: I-VIEW: written just now.
                    unsafe { lease.advance_written(taken) };
                    model.extend_from_slice(&bytes[..taken]);
                }
                Op::Consume(count) => {
                    let count = count.min(model.len());
                    lease.consume(count);
                    model.drain(..count);
                    consumed = if consumed + count == class.bytes() { 0 } else { consumed + count };
                }
                Op::Truncate(count) => {
                    lease.truncate(count);
                    model.truncate(count);
                }
                Op::Compact => {
                    lease.compact();
                    consumed = 0;
                }
                Op::Clear => {
                    lease.clear();
                    model.clear();
                    consumed = 0;
                }
                Op::Change(byte) => {
                    lease.iter_mut().for_each(|other| *other ^= byte);
                    model.iter_mut().for_each(|other| *other ^= byte);
                }
            }
            prop_assert_eq!(&lease[..], &model[..]);
            prop_assert_eq!((lease.len(), lease.is_empty()), (model.len(), model.is_empty()));
            // A view that was consumed up to the very end of its slot starts again at its start.
            prop_assert_eq!(lease.capacity(), class.bytes() - consumed);
            prop_assert_eq!(lease.spare_capacity(), lease.capacity() - lease.len());
            prop_assert_eq!((lease.class(), lease.kind()), (class, Kind::Codec));
        }
    }
}

#[test]
fn a_raw_lease_keeps_its_slot_and_its_kind() {
    let pool = pool();
    let mut lease = pool.try_copy(&[7; 300], Kind::Tasks).unwrap();
    let slot = lease.as_ptr();
    lease.consume(10);
    let raw = lease.into_raw(9);
    assert_eq!(raw.as_ptr(), slot, "the start of the slot, not of the view");
    assert_eq!(pool.budget().charged_by(Kind::Tasks), 512);
    // SAFETY: I-SLOT: from `into_raw` above.
    let lease = unsafe { Lease::from_raw(raw, Kind::Tasks) };
    assert_eq!((lease.len(), lease.capacity(), lease.class()), (0, 512, Class::B512));
    drop(lease);
    assert_eq!(pool.budget().charged_by(Kind::Tasks), 0);
}

#[test]
fn a_lease_is_its_view_however_it_is_seen() {
    let pool = pool();
    let mut lease = pool.try_copy(b"GET /", Kind::Buffers).unwrap();
    lease.consume(4);
    let seen: &[u8] = lease.as_ref();
    assert_eq!((seen, &lease[..], seen.as_ptr()), (&b"/"[..], &b"/"[..], lease.as_ptr().cast_const()));
    lease.as_mut_slice()[0] = b'*';
    lease[..].reverse();
    assert_eq!((&lease[..], lease.is_empty()), (&b"*"[..], false));
}

#[test]
fn a_fully_consumed_slot_of_the_last_class_is_still_its_own() {
    let pool = pool();
    for class in Class::ALL {
        let mut lease = pool.try_acquire_class(class, Kind::Buffers).unwrap();
        while lease.spare_capacity() > 0 {
            lease.extend(&[1; 4096]);
        }
        lease.consume(class.bytes());
        assert_eq!((lease.class(), lease.len(), lease.spare_capacity()), (class, 0, class.bytes()));
    }
}

#[test]
#[should_panic(expected = "no more is consumed")]
fn consuming_too_much_panics() {
    pool().try_copy(b"abc", Kind::Buffers).unwrap().consume(4);
}

#[test]
fn debug_does_not_show_the_bytes() {
    let lease = pool().try_copy(b"secret", Kind::Buffers).unwrap();
    assert_eq!(format!("{lease:?}"), "Lease { class: B64, len: 6, kind: Buffers }");
}

#[test]
fn leases_are_send_and_small() {
    fn is_send<T: Send + Sync + 'static>() {}
    is_send::<Lease>();
    is_send::<crate::PoolBox<u8>>();
    assert_eq!((size_of::<Lease>(), size_of::<Option<Lease>>()), (16, 16));
}
