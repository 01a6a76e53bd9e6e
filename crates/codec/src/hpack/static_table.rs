//! The static table (RFC 7541 appendix A).

use super::mark::Mark;
use super::table::Entry;

/// An entry; the first has index 1.
#[inline]
pub(super) fn get(index: usize) -> Option<Entry<'static>> {
    let place = PLACES.get(index.checked_sub(1)?)?;
    Some(Entry {
        tail: &TEXT[usize::from(place.at)..],
        name_len: place.name_len.into(),
        value_len: place.value_len.into(),
        mark: place.mark,
    })
}

/// The first entry of this name, which is in lower case.
pub(super) fn find_name(name: &[u8]) -> Option<usize> {
    // Those that servers send come first, and most names differ in their lengths.
    let known = match name {
        b"date" => 33,
        b"content-type" => 31,
        b"server" => 54,
        b"cache-control" => 24,
        b"etag" => 34,
        b"location" => 46,
        b"set-cookie" => 55,
        _ => return ENTRIES.iter().position(|(known, _)| known.as_bytes() == name).map(|at| at + 1),
    };
    debug_assert_eq!(ENTRIES[known - 1].0.as_bytes(), name);
    Some(known)
}

pub(super) const LEN: usize = ENTRIES.len();

/// Where an entry's text is in [`TEXT`].
#[derive(Copy, Clone)]
struct Place {
    at: u16,
    name_len: u8,
    value_len: u8,
    mark: Mark,
}

/// Names and values of all entries, and zeros, so that some bytes can be read behind each.
static TEXT: [u8; TEXT_BYTES] = text();
static PLACES: [Place; LEN] = places();
const TEXT_BYTES: usize = text_bytes() + super::table::COPIED_BYTES;

const fn text_bytes() -> usize {
    let (mut bytes, mut at) = (0, 0);
    while at < LEN {
        bytes += ENTRIES[at].0.len() + ENTRIES[at].1.len();
        at += 1;
    }
    bytes
}

const fn text() -> [u8; TEXT_BYTES] {
    let mut text = [0; TEXT_BYTES];
    let (mut len, mut at) = (0, 0);
    while at < LEN {
        let parts = [ENTRIES[at].0.as_bytes(), ENTRIES[at].1.as_bytes()];
        let mut part = 0;
        while part < parts.len() {
            let mut byte = 0;
            while byte < parts[part].len() {
                text[len] = parts[part][byte];
                len += 1;
                byte += 1;
            }
            part += 1;
        }
        at += 1;
    }
    text
}

const fn places() -> [Place; LEN] {
    let mut places = [Place { at: 0, name_len: 0, value_len: 0, mark: Mark::NONE }; LEN];
    let (mut bytes, mut at) = (0, 0);
    while at < LEN {
        let (name, value) = ENTRIES[at];
        places[at] = Place {
            at: bytes as u16,
            name_len: name.len() as u8,
            value_len: value.len() as u8,
            mark: Mark::of_static(at + 1),
        };
        bytes += name.len() + value.len();
        at += 1;
    }
    places
}

#[rustfmt::skip]
static ENTRIES: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];
