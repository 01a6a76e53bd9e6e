//! Properties: the line and the kernel's part are never above 80 % of the container, refusals are exact, extreme limits
//! are harmless.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn line_and_kernel_stay_within_the_container(limit in prop_oneof![1_u64 << 20..1 << 40, Just(u64::MAX)], ops in prop::collection::vec(any::<(bool, u32)>(), 0..80)) {
        // Such a line as the runtime keeps to: 60 % of the limit.
        let line = planned_bytes(limit) / 4 * 3;
        let container = Container::unlimited();
        container.limit(limit, line);
        prop_assert!(container.room_bytes() >= limit / 6, "a quarter of 80 % is a fifth");
        let mut held: Vec<u64> = Vec::new();
        for (charges, bytes) in ops {
            if charges {
                let bytes = u64::from(bytes) % (limit / 20);
                let fits = held.iter().sum::<u64>() + bytes <= container.room_bytes();
                prop_assert_eq!(container.charge(bytes).is_ok(), fits);
                if fits {
                    held.push(bytes);
                }
            } else if let Some(bytes) = held.pop() {
                container.uncharge(bytes);
            }
            prop_assert_eq!(container.kernel_bytes(), held.iter().sum::<u64>());
            prop_assert!(u128::from(line + container.kernel_bytes()) * 100 <= u128::from(limit) * 80);
        }
    }
}

#[test]
fn without_a_container_the_estimate_is_only_shown() {
    let container = Container::unlimited();
    container.charge(1 << 50).unwrap();
    assert_eq!(container.kernel_bytes(), 1 << 50);
    container.uncharge(1 << 50);
}

#[test]
fn a_small_container_is_taken_for_a_mebibyte() {
    for (container_bytes, planned) in
        [(0, 838_860), (1 << 20, 838_860), ((1 << 20) + 100, 838_940), (1_000_000_050, 800_000_040)]
    {
        assert_eq!(planned_bytes(container_bytes), planned);
        let container = Container::unlimited();
        container.limit(container_bytes, 800_000);
        let room = planned - 800_000;
        assert_eq!(container.room_bytes(), room);
        assert_eq!(container.charge(room + 1).map_err(|over| over.cause()), Err(crate::Shortage::Container));
        container.charge(room).unwrap();
        assert!(container.charge(1).is_err() && container.charge(u64::MAX).is_err(), "nor does the sum wrap");
        container.limit(container_bytes, u64::MAX);
        assert_eq!((container.room_bytes(), container.kernel_bytes()), (0, room));
    }
}
