//! Dates that are known, and every day of four centuries against a plain count.

use super::format;

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

/// Counts days one by one, with the rule for leap years as everybody knows it.
#[test]
fn every_day_of_four_centuries() {
    let (mut year, mut month, mut day) = (1_970_u64, 1_usize, 1_u64);
    for days in 0..146_097 {
        let date = format(days * 86_400);
        let text = std::str::from_utf8(&date).expect("ASCII");
        let month_name = std::str::from_utf8(&super::MONTHS[month - 1]).expect("ASCII");
        assert_eq!(text[5..16], format!("{day:02} {month_name} {year}"));
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
