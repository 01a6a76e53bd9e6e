//! Headers of both versions in every cut, and what must not be taken for one.

use super::{HEADER_BYTES_MAX, Malformed, SIGNATURE_2, TLV_CRC32C, crc32c, parse};
use crate::base::peers::Source;

fn proxied(address: &str) -> Source {
    Source::Proxied(address.parse().expect("an address"))
}

fn version_2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = SIGNATURE_2.to_vec();
    bytes.extend_from_slice(&[command, family]);
    bytes.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

const TCP4: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 9, 0x30, 0x39, 0x00, 0x50];

/// Headers that are right, and what they say.
fn valid() -> Vec<(Vec<u8>, Source)> {
    let mut v6 = [0_u8; 36];
    (v6[0], v6[1], v6[15], v6[32], v6[33]) = (0x20, 0x01, 1, 0xff, 0xff);
    vec![
        (b"PROXY TCP4 192.0.2.7 198.51.100.9 12345 80\r\n".to_vec(), proxied("192.0.2.7:12345")),
        (b"PROXY TCP6 2001::1 ::1 65535 443\r\n".to_vec(), proxied("[2001::1]:65535")),
        (b"PROXY UNKNOWN\r\n".to_vec(), Source::Socket),
        (b"PROXY UNKNOWN what ever it says here, with  spaces\r\n".to_vec(), Source::Socket),
        (version_2(0x21, 0x11, &TCP4), proxied("192.0.2.7:12345")),
        (version_2(0x21, 0x21, &v6), proxied("[2001::1]:65535")),
        (version_2(0x20, 0x00, &[]), Source::Socket),
        (version_2(0x20, 0x11, b"skipped"), Source::Socket),
        (version_2(0x21, 0x00, &[]), Source::Socket),
        (version_2(0x21, 0x31, &[0; 216]), Source::Socket),
        (version_2(0x21, 0x11, &[&TCP4[..], &[0x04, 0, 2, 9, 9]].concat()), proxied("192.0.2.7:12345")),
    ]
}

#[test]
fn both_versions_are_read_however_they_are_cut() {
    for (header, source) in valid() {
        for end in 0..header.len() {
            assert_eq!(parse(&header[..end]), Ok(None), "{end} bytes of {:?}", header.escape_ascii());
        }
        let followed = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&header), Ok(Some((source, header.len()))));
        assert_eq!(parse(&followed), Ok(Some((source, header.len()))));
    }
}

#[test]
fn nothing_else_is_taken_for_a_header() {
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 107]].concat();
    let huge = version_2(0x21, 0x00, &vec![0; HEADER_BYTES_MAX]);
    let text: [&[u8]; 14] = [
        b"GET / HTTP/1.1\r\n",
        b"proxy TCP4 192.0.2.7 198.51.100.9 1 2\r\n",
        b"PROXY  TCP4 192.0.2.7 198.51.100.9 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 1\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 1 2 3\r\n",
        b"PROXY TCP4 192.0.2.07 198.51.100.9 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.9 1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 01 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 +1 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 65536 2\r\n",
        b"PROXY TCP4 192.0.2.7 198.51.100.9 1 2\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.9 1 2\r\n",
        &long,
    ];
    let binary = [
        huge,
        version_2(0x11, 0x11, &TCP4),
        version_2(0x22, 0x11, &TCP4),
        version_2(0x21, 0x12, &TCP4),
        version_2(0x21, 0x41, &TCP4),
        version_2(0x21, 0x11, &TCP4[..11]),
        version_2(0x21, 0x11, &[&TCP4[..], &[4, 0]].concat()),
        version_2(0x21, 0x11, &[&TCP4[..], &[4, 0, 9, 1]].concat()),
    ];
    for bytes in text.into_iter().chain(binary.iter().map(Vec::as_slice)) {
        assert_eq!(parse(bytes), Err(Malformed), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_checksum_is_checked() {
    assert_eq!(crc32c(b"123456789", 0..0), 0xe306_9283, "the check value of CRC-32C");
    let mut header = version_2(0x21, 0x11, &[&TCP4[..], &[TLV_CRC32C, 0, 4, 0, 0, 0, 0]].concat());
    assert_eq!(parse(&header), Err(Malformed), "0 is not its sum");
    let at = header.len() - 4;
    let sum = crc32c(&header, at..at + 4);
    header[at..].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(parse(&header), Ok(Some((proxied("192.0.2.7:12345"), header.len()))));
    header[16] ^= 1;
    assert_eq!(parse(&header), Err(Malformed), "another address");
}
