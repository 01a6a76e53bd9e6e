//! Pairs, decoding and integers: tables, and properties over any bytes.

use proptest::prelude::*;

use super::{decode, integer, pairs, value};

#[test]
fn pairs_are_split_at_the_first_equals_sign() {
    let cases: [(&str, &[(&str, &str)]); 8] = [
        ("", &[]),
        ("&", &[]),
        ("a=1", &[("a", "1")]),
        ("a=1&b=2", &[("a", "1"), ("b", "2")]),
        ("a=b=c", &[("a", "b=c")]),
        ("a&&b=&=c", &[("a", ""), ("b", ""), ("", "c")]),
        ("a%26=%3D", &[("a%26", "%3D")]),
        ("a=1&a=2", &[("a", "1"), ("a", "2")]),
    ];
    for (query, expected) in cases {
        let expected = expected.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
        assert!(pairs(query).eq(expected), "{query}");
    }
    assert!(pairs(&b"x=y"[..]).eq([(&b"x"[..], &b"y"[..])]));
}

#[test]
fn decoding_is_lenient() {
    let cases = [
        ("a+b", "a b"),
        ("%41%62%2b", "Ab+"),
        ("%", "%"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("%%41", "%A"),
        ("100%", "100%"),
    ];
    for (raw, expected) in cases {
        assert!(decode(raw.as_bytes()).eq(expected.bytes()), "{raw}");
    }
}

#[test]
fn values_are_found_by_decoded_key() {
    assert_eq!(value("a=1&%62=2&b=3", "b"), Some(&b"2"[..]));
    assert_eq!(value("a=1", "A"), None);
    assert_eq!(value("flag", "flag"), Some(&b""[..]));
}

#[test]
fn integers_are_decimal_and_in_range() {
    for (raw, expected) in [
        ("0", Some(0)),
        ("-5", Some(-5)),
        ("%2B5", Some(5)),
        ("+5", None),
        ("007", Some(7)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("-9223372036854775808", Some(i64::MIN)),
        ("", None),
        ("-", None),
        ("1 ", None),
        ("1_0", None),
        ("0x1", None),
        ("1.0", None),
        ("00000000000000000000000000001", None),
    ] {
        assert_eq!(integer::<i64>(raw.as_bytes()), expected, "{raw:?}");
    }
    assert_eq!(integer::<u64>(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(integer::<u64>(b"-1"), None);
}

proptest! {
    #[test]
    fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::query(&data);
    }

    #[test]
    fn query_like_bytes(data in "[ab=&%0-9+-]{0,60}") {
        crate::fuzz::query(data.as_bytes());
    }

    /// What is percent-encoded decodes to itself.
    #[test]
    fn encoding_is_undone(text in prop::collection::vec(any::<u8>(), 0..50), number in any::<i64>()) {
        let encoded: String = text.iter().map(|byte| format!("%{byte:02x}")).collect();
        prop_assert!(decode(encoded.as_bytes()).eq(text.iter().copied()));
        prop_assert_eq!(integer::<i64>(number.to_string().as_bytes()), Some(number));
    }
}
