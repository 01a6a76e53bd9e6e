//! Records as they come: where one ends (RFC 8446 5.1), so that what is not whole is never looked at twice.
#![forbid(unsafe_code)]

/// Type, version and length.
pub(crate) const HEADER_BYTES: usize = 5;
/// What a record has behind its header at most: 16 KiB, and what encryption may add in TLS 1.2.
const FRAGMENT_BYTES_MAX: usize = 16 * 1024 + 2048;

/// What the bytes at the front of what came are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// A record with so many bytes, its header included. They may not all be there.
    Record(usize),
    /// Less than a header.
    Header,
    /// No record.
    Malformed,
}

pub(crate) fn front(bytes: &[u8]) -> Front {
    let Some(&[kind, major, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return if bytes.first().is_none_or(|kind| is_known(*kind)) { Front::Header } else { Front::Malformed };
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if !is_known(kind) || major != 3 || len > FRAGMENT_BYTES_MAX {
        return Front::Malformed;
    }
    Front::Record(HEADER_BYTES + len)
}

/// Change of cipher spec, alert, handshake, application data.
fn is_known(kind: u8) -> bool {
    (20..=23).contains(&kind)
}

/// How many bytes at the front are whole records. All of them from where there is no record: who decrypts says so.
pub(crate) fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    loop {
        match front(&bytes[end..]) {
            Front::Record(len) if end + len <= bytes.len() => end += len,
            Front::Record(_) | Front::Header => return end,
            Front::Malformed => return bytes.len(),
        }
    }
}

/// How many bytes the first record has, if it is whole; all bytes where there is no record.
pub(crate) fn first(bytes: &[u8]) -> usize {
    match front(bytes) {
        Front::Record(len) if len <= bytes.len() => len,
        Front::Record(_) | Front::Header => 0,
        Front::Malformed => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Front, first, front, whole};

    #[test]
    fn records_end_where_their_headers_say() {
        let mut bytes = vec![22, 3, 1, 0, 2, 7, 7, 23, 3, 3, 0, 0, 23, 3, 3, 0, 9, 1];
        assert_eq!(front(&bytes), Front::Record(7));
        assert_eq!(whole(&bytes), 12, "two are whole");
        bytes.truncate(14);
        assert_eq!((whole(&bytes), whole(&bytes[..6]), whole(&[])), (12, 0, 0));
        assert_eq!((first(&bytes), first(&bytes[..6]), first(&bytes[7..]), first(b"GET /")), (7, 0, 5, 5));
    }

    #[test]
    fn what_is_no_record_is_said_at_its_first_byte() {
        assert_eq!((front(b"G"), front(b""), front(&[22])), (Front::Malformed, Front::Header, Front::Header));
        assert_eq!(front(&[22, 2, 0, 0, 1]), Front::Malformed, "of SSL 2");
        assert_eq!(front(&[23, 3, 3, 0x48, 1]), Front::Malformed, "too long by one");
        assert_eq!(front(&[23, 3, 3, 0x48, 0]), Front::Record(18_437));
        assert_eq!(whole(b"GET / HTTP/1.1"), 14, "all");
    }
}
