//! Properties: what is known is what a list of the last heard senders knows; there are never more of them than may be;
//! what they are charged goes with them.

use plimsoll_pool::{Kind, MemoryLimit};
use plimsoll_runtime::Runtime;
use proptest::prelude::*;

use super::Sequences;

/// The rule, written down again: the last heard is at the end.
fn note(list: &mut Vec<(u8, u64)>, senders_max: usize, sender: u8, number: u64) -> Option<u64> {
    match list.iter().position(|(known, _)| *known == sender) {
        Some(at) if number <= list[at].1 => None,
        Some(at) => {
            let (_, last) = list.remove(at);
            list.push((sender, number));
            Some(number - last - 1)
        }
        None => {
            if list.len() == senders_max {
                list.remove(0);
            }
            list.push((sender, number));
            Some(0)
        }
    }
}

proptest! {
    #[test]
    fn it_is_as_a_list(
        senders_max in 1_usize..5,
        notes in prop::collection::vec((0_u8..7, prop_oneof![0_u64..12, Just(u64::MAX), Just(u64::MAX - 1)]), 1..80),
    ) {
        let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build().expect("it starts");
        let differs = runtime.block_on(async {
            let before = plimsoll_runtime::budget().charged_by(Kind::Slots);
            let (mut sequences, mut list) = (Sequences::new(senders_max), Vec::new());
            for (sender, number) in notes {
                let (noted, expected) = (sequences.note(&sender.to_string(), number), note(&mut list, senders_max, sender, number));
                if noted != expected || sequences.senders() != list.len() || list.len() > senders_max {
                    return Some((sender, number, noted, expected));
                }
            }
            drop(sequences);
            let after = plimsoll_runtime::budget().charged_by(Kind::Slots);
            (before != after).then_some((0, after - before, None, None))
        });
        prop_assert_eq!(differs, None);
    }
}

/// A sender whose name has no room under the line is not known, and takes nobody else's messages with it.
#[test]
fn without_room_nobody_is_known() {
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build().expect("it starts");
    runtime.block_on(async {
        let mut sequences = Sequences::new(10);
        let long = "x".repeat(20 << 20);
        assert_eq!((sequences.note("a", 1), sequences.note(&long, 1)), (Some(0), Some(0)));
        assert_eq!(sequences.senders(), 0, "all had to go, and there was no room still");
        assert_eq!((sequences.note("a", 1), sequences.note("a", 3)), (Some(0), Some(1)));
    });
}
