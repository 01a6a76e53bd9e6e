//! Properties: a message says how many bytes, whose fault it is and what to do; whether waiting helps follows from the
//! cause.
#![forbid(unsafe_code)]

use core::error::Error as _;

use super::*;

#[test]
fn refusals_say_how_much_and_what_to_do() {
    let because = |cause| OverBudget::because(7, cause);
    for (over, cause, is_passing, text) in [
        (
            OverBudget::new(7),
            Shortage::Line,
            true,
            "7 more bytes would cross the memory line: give something back, or raise the line",
        ),
        (
            OverBudget::too_large(7),
            Shortage::TooLarge,
            false,
            "7 bytes in one piece are more than the largest size class has: use several pieces",
        ),
        (
            OverBudget::in_container(7),
            Shortage::Container,
            true,
            "7 more bytes in the kernel would cross 80 % of the container's limit: close connections, or raise the limit",
        ),
        (
            because(Shortage::System(12)),
            Shortage::System(12),
            true,
            "the system refused memory for 7 bytes that the line allows (errno 12): free memory elsewhere",
        ),
        (
            because(Shortage::Addresses),
            Shortage::Addresses,
            true,
            "no addresses are left for 7 bytes in their size class: a pool has 4 GiB for each, use more workers",
        ),
    ] {
        assert_eq!((over.wanted_bytes(), over.cause(), over.is_passing()), (7, cause, is_passing));
        assert_eq!(over.to_string(), text);
    }
    let nothing = OverBudget::new(0).to_string();
    assert_eq!(nothing, "the memory line leaves no room: give something back, or raise the line");
}

#[test]
fn a_pool_that_could_not_be_made_says_why() {
    let over = Error::from(OverBudget::new(0));
    assert!(over.to_string().starts_with("the memory line is too low for a pool: the memory line leaves no room"));
    assert_eq!(over.source().map(ToString::to_string), Some(OverBudget::new(0).to_string()));
    let reserve = Error::Reserve { bytes: 3 << 30, errno: 12 };
    assert!(reserve.to_string().starts_with("the system refused to reserve 3 GiB of addresses (errno 12)"));
    let system = Error::System { errno: 22 };
    assert_eq!(system.to_string(), "the system refused to set up a pool (errno 22)");
    assert!(reserve.source().is_none() && system.source().is_none());
}
