//! Properties: what a call gives comes back; a panic ends here, also one in dropping what the first one carried.
#![forbid(unsafe_code)]

use std::panic::panic_any;

use super::catch_panic;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in a drop");
    }
}

#[test]
#[cfg_attr(plimsoll_asan, ignore = "the second payload is leaked: there is nothing better to do with it")]
fn panics_end_here() {
    assert_eq!(catch_panic(|| 7), Some(7));
    assert_eq!(catch_panic(|| -> u32 { panic!("in a call") }), None);
    assert_eq!(catch_panic(|| -> u32 { panic_any(Bomb) }), None);
}
