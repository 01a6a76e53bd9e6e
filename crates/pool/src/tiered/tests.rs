//! Properties: the buffer is as a `Vec`; what is inline has no lease; a lease has the smallest class when it is taken
//! and after a shrink; an empty buffer has none; a refusal changes nothing.

use proptest::prelude::*;

use super::*;
use crate::{Budget, Footprint, MemoryLimit, PoolConfig, page_bytes};

/// More than the first step of any class takes for its bookkeeping.
const METADATA_BYTES_MAX: u64 = 8 * 1024;

#[derive(Clone, Debug)]
enum Op {
    Extend(usize),
    ExtendInline(usize),
    Consume(usize),
    Shrink,
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![3 => 0_usize..40, 1 => 0_usize..30_000];
    prop_oneof![
        4 => len.clone().prop_map(Op::Extend),
        2 => len.clone().prop_map(Op::ExtendInline),
        4 => len.prop_map(Op::Consume),
        2 => Just(Op::Shrink),
        1 => Just(Op::Clear),
    ]
}

proptest! {
    #[test]
    fn the_bytes_are_as_in_a_vector(limit_kib in 16_u64..400, ops in prop::collection::vec(op(), 1..60)) {
        let budget = Budget::new(MemoryLimit::bytes((limit_kib << 10) - 4_096 + page_bytes() as u64));
        let pool = Pool::new(&budget, PoolConfig::default()).unwrap();
        let mut buf = TieredBuf::<48>::with_kind(Kind::Codec);
        let mut model: Vec<u8> = Vec::new();
        let mut next = 0_u8;
        let mut bytes = |len: usize| -> Vec<u8> {
            (0..len).map(|_| { next = next.wrapping_add(1); next }).collect()
        };
        for op in ops {
            match op {
                Op::Extend(len) => {
                    let (more, class) = (bytes(len), buf.class());
                    match buf.extend(&pool, &more) {
                        Ok(()) => {
                            model.extend_from_slice(&more);
                            prop_assert!(buf.class() == class || buf.class() == Class::for_len(model.len()));
                        }
                        Err(_) => prop_assert_eq!(buf.class(), class),
                    }
                }
                Op::ExtendInline(len) => {
                    let more = bytes(len);
                    let room = buf.class().map_or(48, Class::bytes) - model.len();
                    let taken = buf.extend_inline(&more);
                    prop_assert_eq!(taken, len <= room);
                    if taken {
                        model.extend_from_slice(&more);
                    }
                }
                Op::Consume(count) => {
                    let count = count.min(model.len());
                    buf.consume(count);
                    model.drain(..count);
                }
                Op::Shrink => {
                    buf.shrink(&pool);
                    let smallest = if model.len() <= 48 { None } else { Class::for_len(model.len()) };
                    // The smaller lease stands beside the larger one for a moment, and may be the first of its class.
                    let unit = smallest.map_or(0, |class| Footprint::one(class.bytes()).page_bytes());
                    let needed = unit + METADATA_BYTES_MAX;
                    let room = budget.limit().as_bytes() - budget.charged() >= needed;
                    prop_assert!(buf.class() == smallest || !room);
                }
                Op::Clear => {
                    buf.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(buf.as_slice(), &model[..]);
            prop_assert_eq!((buf.len(), buf.is_empty()), (model.len(), model.is_empty()));
            prop_assert!(!model.is_empty() || buf.class().is_none());
            prop_assert_eq!(budget.charged_by(Kind::Codec), buf.class().map_or(0, |class| class.bytes() as u64));
        }
    }
}

#[test]
fn more_than_the_largest_class_is_refused() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).unwrap();
    let mut buf = TieredBuf::<0>::new();
    buf.extend(&pool, b"").unwrap();
    assert_eq!(buf.class(), None);
    buf.extend(&pool, &[1; 131_072]).unwrap();
    let over = buf.extend(&pool, b"1").unwrap_err();
    assert!(!over.is_passing());
    assert_eq!(buf.len(), 131_072);
}

/// What fits behind the rest is put there; the rest moves to the front only if it has to.
#[test]
fn bytes_move_only_for_what_does_not_fit_behind_them() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default()).unwrap();
    let mut leased = TieredBuf::<0>::new();
    leased.extend(&pool, &[1; 60]).unwrap();
    leased.consume(30);
    let at = leased.as_slice().as_ptr();
    assert!(leased.extend_inline(&[2; 4]) && leased.as_slice().as_ptr() == at, "64 bytes");
    assert!(leased.extend_inline(&[3; 30]) && leased.as_slice().as_ptr() != at);
    assert!(!leased.extend_inline(b"4"));
    let mut inline = TieredBuf::<64>::new();
    assert!(inline.extend_inline(&[1; 60]));
    inline.consume(30);
    let at = inline.as_slice().as_ptr();
    assert!(inline.extend_inline(&[2; 4]) && inline.as_slice().as_ptr() == at);
    assert!(inline.extend_inline(&[3; 30]) && inline.as_slice().as_ptr() != at);
    for buf in [leased.as_slice(), inline.as_slice()] {
        assert_eq!(buf, [&[1; 30][..], &[2; 4], &[3; 30]].concat());
    }
}

/// The most and the fewest bytes that may be inline.
#[test]
fn bytes_are_inline_up_to_the_last() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default()).unwrap();
    let mut buf = Box::new(TieredBuf::<65_535>::new());
    buf.extend(&pool, &[1; 65_534]).unwrap();
    assert!(buf.extend_inline(b"2") && !buf.extend_inline(b"3") && buf.extend_inline(b""));
    assert_eq!((buf.class(), buf.len()), (None, 65_535));
    buf.consume(65_000);
    assert!(buf.extend_inline(&[4; 65_000]), "room at the front counts");
    assert_eq!((buf.as_slice()[534], buf.as_slice()[535], buf.len()), (b'2', 4, 65_535));
    buf.extend(&pool, b"5").unwrap();
    assert_eq!((buf.class(), buf.len()), (Some(Class::K64), 65_536));
    buf.consume(1);
    buf.shrink(&pool);
    assert_eq!((buf.class(), buf.len()), (None, 65_535));

    let mut none = TieredBuf::<0>::new();
    assert!(none.extend_inline(b"") && !none.extend_inline(b"x"));
    none.extend(&pool, b"x").unwrap();
    assert_eq!((none.class(), none.as_slice()), (Some(Class::B64), &b"x"[..]));
    none.consume(1);
    assert_eq!(none.class(), None, "nothing is held for nothing");
}
