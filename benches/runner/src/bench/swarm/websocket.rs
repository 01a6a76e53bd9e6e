//! What a client of WebSockets sends, and what it expects.
//!
//! All connections send the same key and the same mask: that costs a server as much as any other, and a floor can know
//! the answer.

/// The request for a WebSocket at this target.
pub(crate) fn handshake(target: &str) -> Vec<u8> {
    let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Sec-WebSocket-Key: {KEY}\r\n\r\n").into_bytes()
}

/// A binary message of so many bytes, masked; below 65,536.
pub(crate) fn message(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x82];
    match u8::try_from(bytes) {
        Ok(short @ ..126) => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(bytes as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&MASK);
    frame.extend(MASK.iter().cycle().take(bytes).map(|mask| b'm' ^ mask));
    frame
}

/// Whether a head is the answer to the handshake.
pub(crate) fn is_accepted(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    head.starts_with("http/1.1 101 ")
        && head.contains(&format!("sec-websocket-accept: {ACCEPT}\r\n").to_ascii_lowercase())
}

/// The head of a whole data frame without a mask, and the length of its payload. `None`: more of it is needed.
pub(crate) fn frame(input: &[u8]) -> Result<Option<(usize, u64)>, Unexpected> {
    match *input {
        [first, ..] if first != 0x81 && first != 0x82 => Err(Unexpected),
        [_, len @ ..126, ..] => Ok(Some((2, len.into()))),
        [_, 126, high, low, ..] => Ok(Some((4, u16::from_be_bytes([high, low]).into()))),
        [_, 126, ..] | [_] | [] => Ok(None),
        _ => Err(Unexpected),
    }
}

/// Something else than a data frame of a server, or one of 64 KiB and more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected;

/// The example of RFC 6455 1.3, and its answer.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

#[cfg(test)]
mod tests {
    //! Frames as RFC 6455 5.2 has them.

    use super::{Unexpected, frame, is_accepted, message};

    #[test]
    fn messages_have_lengths() {
        assert_eq!(message(1), [0x82, 0x81, 0x12, 0x34, 0x56, 0x78, b'm' ^ 0x12]);
        assert_eq!(message(200)[..4], [0x82, 0xFE, 0, 200]);
        assert_eq!((message(125).len(), message(126).len()), (131, 134));
    }

    #[test]
    fn frames_are_read() {
        assert_eq!(frame(&[0x82, 5, 1]), Ok(Some((2, 5))));
        assert_eq!(frame(&[0x81, 126, 1, 0]), Ok(Some((4, 256))));
        assert_eq!((frame(&[]), frame(&[0x82]), frame(&[0x82, 126, 1])), (Ok(None), Ok(None), Ok(None)));
        for wrong in [&[0x88, 2][..], &[0x82, 0x85], &[0x82, 127]] {
            assert_eq!(frame(wrong), Err(Unexpected));
        }
        assert!(!is_accepted(b"HTTP/1.1 200 OK\r\n\r\n"));
    }
}
