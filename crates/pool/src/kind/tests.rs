//! Properties: a kind comes back from its bits, whatever stands beside them, and has a name of its own.
#![forbid(unsafe_code)]

use super::*;

#[test]
fn kinds_have_numbers_and_names() {
    for (number, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!((kind.bits(), Kind::from_bits(number), Kind::from_bits(number | !Kind::MASK)), (number, kind, kind));
    }
    let names = Kind::ALL.map(|kind| kind.to_string());
    assert_eq!(names, ["fixed", "slots", "tasks", "buffers", "codec", "rings", "stacks"]);
}
