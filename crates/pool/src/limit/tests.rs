//! Properties: what is displayed parses to the same limit; every way of writing nonsense has its own error.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn display_parses_back(bytes in 1..=u64::MAX) {
        let limit = MemoryLimit::bytes(bytes);
        prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        prop_assert_eq!(bytes.to_string().parse(), Ok(limit));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,12}") {
        let _ = text.parse::<MemoryLimit>();
    }

    #[test]
    fn units_are_powers_of_two(count in 1_u64..1 << 33) {
        prop_assert_eq!(format!("{count}KiB").parse(), Ok(MemoryLimit::kib(count)));
        prop_assert_eq!(format!("{count} mib").parse(), Ok(MemoryLimit::mib(count)));
        prop_assert_eq!(format!(" {count}GiB ").parse(), Ok(MemoryLimit::gib(count)));
        prop_assert_eq!(format!("{count}B").parse(), Ok(MemoryLimit::bytes(count)));
    }
}

#[test]
fn nonsense_is_named() {
    let cases = [
        ("", ParseLimitError::Empty),
        ("  ", ParseLimitError::Empty),
        ("MiB", ParseLimitError::Number),
        ("-1MiB", ParseLimitError::Number),
        ("+1", ParseLimitError::Number),
        ("1.5GiB", ParseLimitError::Unit),
        ("64MB", ParseLimitError::Unit),
        ("64M", ParseLimitError::Unit),
        ("1KiBKiB", ParseLimitError::Unit),
        ("18446744073709551616", ParseLimitError::Overflow),
        ("17179869184GiB", ParseLimitError::Overflow),
        ("0", ParseLimitError::Zero),
        ("0MiB", ParseLimitError::Zero),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<MemoryLimit>(), Err(error), "{text:?}");
    }
}

#[test]
fn errors_say_what_to_write() {
    let text = |text: &str| text.parse::<MemoryLimit>().expect_err("nonsense").to_string();
    assert_eq!(text(""), "the memory limit is empty: write a number and a unit, as in 64MiB");
    assert_eq!(text("MiB"), "the memory limit does not begin with a whole number: write it as in 64MiB");
    assert_eq!(text("64M"), "the memory limit has an unknown unit: use B, KiB, MiB or GiB");
    assert_eq!(text("17179869184GiB"), "the memory limit does not fit into 64 bits: write a smaller one");
    assert_eq!(text("0"), "the memory limit is zero: a process needs some memory to run");
}

#[test]
fn the_largest_exact_unit_is_shown() {
    assert_eq!(MemoryLimit::mib(1024).to_string(), "1GiB");
    assert_eq!(MemoryLimit::kib(1536).to_string(), "1536KiB");
    assert_eq!(MemoryLimit::bytes(65_537).to_string(), "65537B");
}

#[test]
#[should_panic(expected = "at least 1 byte")]
fn zero_panics() {
    let _ = MemoryLimit::mib(0);
}
