//! Query strings: `a=1&b=2` as pairs, decoded only where asked for, without allocation.
//!
//! ```
//! use plimsoll_codec::query;
//!
//! let q = "a=3&name=a+b%21&flag&=x";
//! let pairs: Vec<_> = query::pairs(q).collect();
//! assert_eq!(pairs[1], (&b"name"[..], &b"a+b%21"[..]));
//! assert_eq!(pairs[2], (&b"flag"[..], &b""[..]));
//! assert_eq!(query::value(q, "a").and_then(query::integer::<i64>), Some(3));
//! assert!(query::decode(pairs[1].1).eq(*b"a b!"));
//! ```

/// The pairs of a query, raw: split at `&`, then each at its first `=`. Empty parts between `&` are left out; a part
/// without `=` has an empty value.
pub fn pairs<Q: AsRef<[u8]> + ?Sized>(query: &Q) -> impl Iterator<Item = (&[u8], &[u8])> {
    query.as_ref().split(|&byte| byte == b'&').filter(|part| !part.is_empty()).map(|part| {
        match part.iter().position(|&byte| byte == b'=') {
            Some(mark) => (&part[..mark], &part[mark + 1..]),
            None => (part, &[][..]),
        }
    })
}

/// The raw value of the first pair whose decoded key is `key`.
#[must_use]
pub fn value<'q, Q: AsRef<[u8]> + ?Sized>(query: &'q Q, key: &str) -> Option<&'q [u8]> {
    pairs(query).find(|(name, _)| decode(name).eq(key.bytes())).map(|(_, value)| value)
}

/// The bytes of a raw key or value with percent-encoding undone and `+` read as a space, as forms are encoded. A `%`
/// that two hexadecimal digits do not follow stands for itself.
pub fn decode(raw: &[u8]) -> impl Iterator<Item = u8> + Clone {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        rest = after;
        Some(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
                digit(*high) << 4 | digit(*low)
            }
            _ => first,
        })
    })
}

/// Decodes a raw value as a decimal integer: an optional sign and digits, percent-encoded or not, at most 20 bytes
/// when decoded. `None` if it is anything else or out of range.
///
/// A `+` that is not percent-encoded is a space in a form, so it is no sign here.
///
/// ```
/// use plimsoll_codec::query;
///
/// assert_eq!(query::integer::<i32>(b"-%31%30"), Some(-10));
/// assert_eq!(query::integer::<u8>(b"256"), None);
/// ```
#[must_use]
pub fn integer<N: std::str::FromStr>(raw: &[u8]) -> Option<N> {
    let mut text = [0; INTEGER_BYTES_MAX];
    let mut len = 0;
    for byte in decode(raw) {
        *text.get_mut(len)? = byte;
        len += 1;
    }
    debug_assert!(len <= INTEGER_BYTES_MAX);
    let digits = &text[..len];
    let is_integer = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
    if is_integer.is_empty() || !is_integer.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn digit(hex: u8) -> u8 {
    debug_assert!(hex.is_ascii_hexdigit());
    match hex {
        b'0'..=b'9' => hex - b'0',
        _ => (hex | 0x20) - b'a' + 10,
    }
}

/// A sign and 20 digits, which is what 64 bits need, and one to spare.
const INTEGER_BYTES_MAX: usize = 22;

#[cfg(test)]
mod tests;
