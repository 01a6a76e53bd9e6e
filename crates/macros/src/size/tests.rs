//! Sizes that the runtime takes are taken, and the others refused with a reason.

use super::{SizeError, parse};

#[test]
fn every_unit_is_known() {
    let sizes =
        [("65536", 65_536), ("65536B", 65_536), ("512KiB", 524_288), ("64MiB", 67_108_864), ("1GiB", 1_073_741_824)];
    for (text, bytes) in sizes {
        assert_eq!(parse(text), Ok(bytes), "{text}");
    }
    assert_eq!(parse("18446744073709551615"), Ok(u64::MAX));
}

#[test]
fn nonsense_is_refused_with_its_reason() {
    let wrong = [
        ("", SizeError::Empty),
        ("MiB", SizeError::NoNumber),
        ("-1MiB", SizeError::NoNumber),
        (" 1MiB", SizeError::NoNumber),
        ("64MB", SizeError::Unit),
        ("64 MiB", SizeError::Unit),
        ("64mib", SizeError::Unit),
        ("1.5GiB", SizeError::Unit),
        ("18446744073709551616", SizeError::Overflow),
        ("17179869184GiB", SizeError::Overflow),
        ("0", SizeError::Zero),
        ("0MiB", SizeError::Zero),
    ];
    for (text, error) in wrong {
        assert_eq!(parse(text), Err(error), "{text}");
        assert!(!error.message().is_empty());
    }
}
