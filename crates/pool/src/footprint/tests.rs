//! Properties: every part has its class, a part without bytes has none, and one that no class holds is an error that
//! names it; sums are those of the classes, with whole pages where pages are meant.
#![forbid(unsafe_code)]

use super::*;
use crate::error::Shortage;

#[test]
fn every_part_has_its_class() {
    let footprint = Footprint::new().head(64).body(16_645).out(131_072);
    assert_eq!(footprint.classes(), Ok([Some(Class::B64), Some(Class::K20), Some(Class::K128)]));
    assert_eq!(footprint.class_bytes(), 64 + 20_480 + 131_072);
    let page = page_bytes() as u64;
    assert_eq!(footprint.page_bytes(), page + 5 * page + 131_072, "20 KiB are five of the smallest pages");
    assert_eq!(Footprint::new().body(1).classes(), Ok([None, Some(Class::B64), None]));
    assert_eq!(Footprint::one(4097), Footprint::new().out(4097));
    assert_eq!((Footprint::new().class_bytes(), Footprint::new().page_bytes()), (0, 0));
    assert_eq!(Footprint::new().head(0), Footprint::default());
}

#[test]
fn a_part_that_no_class_holds_is_an_error() {
    for (len, wanted) in
        [(131_073, 131_073), (u32::MAX as usize, u32::MAX), (u32::MAX as usize + 1, u32::MAX), (usize::MAX, u32::MAX)]
    {
        for footprint in [Footprint::new().head(len), Footprint::new().body(len), Footprint::one(len)] {
            let over = footprint.out(footprint.parts[2] as usize).classes().unwrap_err();
            assert_eq!((over.cause(), over.wanted_bytes()), (Shortage::TooLarge, u64::from(wanted)));
            assert_eq!((footprint.class_bytes(), footprint.page_bytes()), (0, 0));
        }
    }
}
