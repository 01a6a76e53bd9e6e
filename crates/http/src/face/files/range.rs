//! Ranges of bytes (RFC 9110 14).

use crate::RequestRef;

/// What of a file a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    All,
    /// From a byte to another, both of them included and in the file.
    Part(u64, u64),
    /// It begins behind the end.
    Unsatisfiable,
}

impl Range {
    /// What a request asks for of so many bytes. What is malformed, in another unit, or several ranges at once, is as
    /// if it was not there.
    pub(super) fn of(request: &RequestRef<'_>, len: u64) -> Self {
        let mut values = request.fields_named("range");
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value, len).unwrap_or(Self::All),
            _ => Self::All,
        }
    }

    fn parse(value: &[u8], len: u64) -> Option<Self> {
        let at = value.iter().position(|&byte| byte == b'=')?;
        let (unit, ranges) = (&value[..at], value[at + 1..].trim_ascii());
        if !unit.eq_ignore_ascii_case(b"bytes") {
            return None;
        }
        let dash = ranges.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&ranges[..dash], &ranges[dash + 1..]);
        if first.is_empty() {
            return match number(last)? {
                0 => Some(Self::Unsatisfiable),
                _ if len == 0 => None,
                suffix => Some(Self::Part(len.saturating_sub(suffix), len - 1)),
            };
        }
        let first = number(first)?;
        let last = if last.is_empty() { u64::MAX } else { number(last)? };
        match () {
            () if last < first => None,
            () if first >= len => Some(Self::Unsatisfiable),
            () => Some(Self::Part(first, last.min(len - 1))),
        }
    }
}

/// Digits; one that is larger than any file is the largest number.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    is_number.then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::Range::{All, Part, Unsatisfiable};
    use super::*;

    #[test]
    fn ranges_lie_in_the_file() {
        for (value, len, range) in [
            ("bytes=0-0", 10, Part(0, 0)),
            ("bytes=2-5", 10, Part(2, 5)),
            ("Bytes= 2-5 ", 10, Part(2, 5)),
            ("bytes=2-", 10, Part(2, 9)),
            ("bytes=2-99", 10, Part(2, 9)),
            ("bytes=9-99999999999999999999999", 10, Part(9, 9)),
            ("bytes=-3", 10, Part(7, 9)),
            ("bytes=-30", 10, Part(0, 9)),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=10-12", 10, Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-5", 0, All),
            ("bytes=5-2", 10, All),
            ("bytes=0-1,3-4", 10, All),
            ("bytes=-", 10, All),
            ("bytes=", 10, All),
            ("bytes=a-b", 10, All),
            ("bytes=+1-2", 10, All),
            ("bytes 0-1", 10, All),
            ("lines=0-1", 10, All),
        ] {
            assert_eq!(Range::parse(value.as_bytes(), len).unwrap_or(All), range, "{value} of {len}");
        }
    }
}
