//! Dates that are known, and every day of four centuries against a plain count.

use super::{format, parse};

#[test]
fn known_dates() {
    for (seconds, date) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (1_709_210_096, "Thu, 29 Feb 2024 12:34:56 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ] {
        assert_eq!(std::str::from_utf8(&format(seconds)), Ok(date), "{seconds}");
    }
}

#[test]
fn other_forms_of_dates() {
    for (date, seconds) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        (" Sunday, 06-Nov-94 08:49:37 GMT\t", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("Tue Feb 29 00:00:00 2000", Some(951_782_400)),
        ("Friday, 01-Jan-38 00:00:00 GMT", Some(2_145_916_800)),
        ("Thu, 01 Jan 1970 00:00:60 GMT", Some(60)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
        ("Thu, 29 Feb 2001 00:00:00 GMT", None),
        ("Thu, 31 Apr 2001 00:00:00 GMT", None),
        ("Thu, 00 Jan 2001 00:00:00 GMT", None),
        ("Wed, 31 Dec 1969 23:59:59 GMT", None),
        ("Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 nov 1994 08:49:37 GMT", None),
        ("Sun, 006 Nov 1994 08:49:37 GMT", None),
        ("Sun, +6 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 8:49:37 GMT", None),
        ("Sun, 06 Nov 19940 08:49:37 GMT", None),
        ("Sun Nov 6 08:49:37 1994 GMT", None),
        ("784111777", None),
        ("", None),
        ("\u{e9}, 06 Nov 1994", None),
    ] {
        assert_eq!(parse(date.as_bytes()), seconds, "{date:?}");
    }
    assert_eq!(parse(b"\xff"), None);
}

proptest::proptest! {
    /// Whatever is read as a date is one: written, it is read as the same.
    #[test]
    fn any_text_is_a_date_or_none(text in "[A-Za-z]{0,3},? {0,2}[0-9]{0,3}[ -]?(Jan|Feb|Dec|x)?[ -]?[0-9]{0,5} ?[0-9:]{0,9}( GMT)?") {
        if let Some(seconds) = parse(text.as_bytes()) {
            proptest::prop_assert_eq!(parse(&format(seconds)), Some(seconds));
        }
    }
}

/// Counts days one by one, with the rule for leap years as everybody knows it.
#[test]
fn every_day_of_four_centuries() {
    let (mut year, mut month, mut day) = (1_970_u64, 1_usize, 1_u64);
    for days in 0..146_097 {
        let date = format(days * 86_400);
        let text = std::str::from_utf8(&date).expect("ASCII");
        let month_name = std::str::from_utf8(&super::MONTHS[month - 1]).expect("ASCII");
        assert_eq!(text[5..16], format!("{day:02} {month_name} {year}"));
        let second = days * 86_400 + days * 7_919 % 86_400;
        assert_eq!(parse(&format(second)), Some(second), "{text}");
        assert_eq!(text.as_bytes()[..3], super::WEEKDAYS[days as usize % 7]);
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let last = match month {
            2 => 28 + u64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        day += 1;
        if day > last {
            (day, month) = (1, month + 1);
        }
        if month > 12 {
            (month, year) = (1, year + 1);
        }
    }
}
