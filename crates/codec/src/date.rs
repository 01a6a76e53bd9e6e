//! Dates in fields (RFC 9110 5.6.7): written as IMF-fixdate, and read in all forms that were ever in use.

/// Length of every date.
pub const DATE_BYTES: usize = 29;

/// Formats seconds since 1970-01-01 as `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// From the year 10,000 on (253,402,300,800) the last second of 9999 is given, as the format has four digits for a
/// year. Costs some tens of nanoseconds: call it once a second and keep the result.
///
/// ```
/// use plimsoll_codec::date;
///
/// assert_eq!(&date::format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
/// ```
#[must_use]
pub fn format(unix_seconds: u64) -> [u8; DATE_BYTES] {
    let seconds = unix_seconds.min(SECONDS_MAX);
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    debug_assert!((1_970..=9_999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day));
    let mut out = *b"___, __ ___ ____ __:__:__ GMT";
    // The first day of 1970 was a Thursday.
    out[..3].copy_from_slice(&WEEKDAYS[(days % 7) as usize]);
    out[8..11].copy_from_slice(&MONTHS[(month - 1) as usize]);
    for (at, number) in [
        (5, day),
        (12, year / 100),
        (14, year % 100),
        (17, second_of_day / 3_600),
        (20, second_of_day / 60 % 60),
        (23, second_of_day % 60),
    ] {
        debug_assert!(number < 100, "two digits");
        out[at] = b'0' + (number / 10) as u8;
        out[at + 1] = b'0' + (number % 10) as u8;
    }
    out
}

/// Seconds since 1970-01-01 of a date in one of the three forms; `None` for anything else, and for what is before 1970.
/// The day of the week is not compared with the date. A year of two digits is one from 1970 to 2069.
///
/// ```
/// use plimsoll_codec::date;
///
/// assert_eq!(date::parse(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
/// assert_eq!(date::parse(b"Sunday, 06-Nov-94 08:49:37 GMT"), Some(784_111_777));
/// assert_eq!(date::parse(b"Sun Nov  6 08:49:37 1994"), Some(784_111_777));
/// assert_eq!(date::parse(b"tomorrow"), None);
/// ```
#[must_use]
pub fn parse(value: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(value.trim_ascii()).ok()?;
    let (day, month, year, time) = match text.split_once(", ") {
        Some((_, rest)) => {
            let (date, time) = rest.strip_suffix(" GMT")?.rsplit_once(' ')?;
            let mut parts = date.splitn(3, if date.contains('-') { '-' } else { ' ' });
            (parts.next()?, parts.next()?, parts.next()?, time)
        }
        // ctime's.
        None => {
            let mut parts = text.split(' ').filter(|part| !part.is_empty()).skip(1);
            let (month, day, time, year) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            (day, month, year, time)
        }
    };
    let month = MONTHS.iter().position(|name| name == month.as_bytes())? as u64 + 1;
    let year = match (digits(year)?, year.len()) {
        (year, 4) => year,
        (year, 2) => year + if year < 70 { 2_000 } else { 1_900 },
        _ => return None,
    };
    let day = digits(day).filter(|_| day.len() <= 2)?;
    let mut parts = time.splitn(3, ':').map(|part| if part.len() == 2 { digits(part) } else { None });
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    // A leap second is the first one of the next minute.
    if year < 1_970 || day == 0 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days_of(year, month, day);
    (civil(days) == (year, month, day)).then(|| days * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// A number of up to four digits.
fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Days since 1970-01-01, of a day from then on: the inverse of [`civil`] for days that there are.
fn days_of(year: u64, month: u64, day: u64) -> u64 {
    debug_assert!((1_970..=9_999).contains(&year) && (1..=12).contains(&month) && day > 0);
    let (year, march_month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month (1 to 12) and day (1 to 31) of a day since 1970-01-01.
///
/// Counts in years that begin in March, so that a leap day is the last of its year: an era is 400 years or 146,097
/// days.
fn civil(days: u64) -> (u64, u64, u64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let since_march = days + 719_468;
    let (era, day_of_era) = (since_march / 146_097, since_march % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

const WEEKDAYS: [[u8; 3]; 7] = [*b"Thu", *b"Fri", *b"Sat", *b"Sun", *b"Mon", *b"Tue", *b"Wed"];

const MONTHS: [[u8; 3]; 12] =
    [*b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov", *b"Dec"];

/// 9999-12-31 23:59:59.
const SECONDS_MAX: u64 = 253_402_300_799;

#[cfg(test)]
mod tests;
