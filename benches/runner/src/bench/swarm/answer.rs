//! The answers on a connection: counted, and looked at as far as a client must.

use super::websocket;

/// Where the reading stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    expected: Expected,
    /// Of a head that is not complete; below [`HEAD_BYTES_MAX`].
    head: Vec<u8>,
    body_left: u64,
    done: u64,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Expected {
    /// Heads with bodies.
    #[default]
    Responses,
    /// The answer to a handshake.
    Upgrade,
    /// Frames of a WebSocket.
    Frames,
}

/// The server said something else than 200, or nothing that is HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong;

impl Answers {
    pub(super) fn new(expected: Expected) -> Answers {
        Answers { expected, ..Answers::default() }
    }

    /// Whether a handshake has to be answered first.
    pub(super) fn is_opening(&self) -> bool {
        self.expected == Expected::Upgrade
    }

    /// How many are complete.
    pub(super) const fn done(&self) -> u64 {
        self.done
    }

    /// Takes what has come.
    pub(super) fn feed(&mut self, mut input: &[u8]) -> Result<(), Wrong> {
        while !input.is_empty() {
            if self.body_left > 0 {
                let len = self.body_left.min(input.len() as u64);
                self.body_left -= len;
                input = &input[len as usize..];
                self.done += u64::from(self.body_left == 0);
                continue;
            }
            if self.expected == Expected::Frames {
                let before = self.head.len();
                self.head.extend_from_slice(&input[..input.len().min(4 - before)]);
                let Some((head_len, payload)) = websocket::frame(&self.head).map_err(|_| Wrong)? else { return Ok(()) };
                self.body_left = payload;
                self.done += u64::from(payload == 0);
                input = &input[head_len.saturating_sub(before)..];
                self.head.clear();
                continue;
            }
            let before = self.head.len();
            self.head.extend_from_slice(&input[..input.len().min(HEAD_BYTES_MAX - before)]);
            let from = before.saturating_sub(3);
            let Some(end) = self.head[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
                return if self.head.len() < HEAD_BYTES_MAX { Ok(()) } else { Err(Wrong) };
            };
            let head_len = from + end + 4;
            if self.expected == Expected::Upgrade {
                if !websocket::is_accepted(&self.head[..head_len]) || input.len() > head_len - before {
                    return Err(Wrong);
                }
                (self.expected, self.head) = (Expected::Frames, Vec::new());
                return Ok(());
            }
            self.body_left = content_length(&self.head[..head_len]).ok_or(Wrong)?;
            self.done += u64::from(self.body_left == 0);
            input = &input[head_len - before..];
            self.head.clear();
        }
        Ok(())
    }
}

/// The length of the body after a head of status 200; none if it has no `Content-Length`.
fn content_length(head: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(head).ok()?;
    let (status, fields) = head.split_once("\r\n")?;
    status.starts_with("HTTP/1.1 200").then_some(())?;
    let is_length = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    fields.split("\r\n").find_map(is_length)
}

const HEAD_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    //! However the answers are split, they are counted.

    use super::{Answers, Expected, Wrong};

    #[test]
    fn frames_are_counted_in_any_split() {
        let opening = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
        let mut frames = vec![0x82, 2, 1, 2, 0x81, 0, 0x82, 126, 0, 200];
        frames.extend([7; 200]);
        for piece in 1..40 {
            let mut answers = Answers::new(Expected::Upgrade);
            opening.chunks(piece).for_each(|part| answers.feed(part).unwrap());
            assert!(!answers.is_opening());
            frames.chunks(piece).for_each(|part| answers.feed(part).unwrap());
            assert_eq!(answers.done(), 3, "pieces of {piece}");
        }
        assert_eq!(Answers::new(Expected::Upgrade).feed(b"HTTP/1.1 200 OK\r\n\r\n"), Err(Wrong));
    }

    #[test]
    fn splits_do_not_matter() {
        let input = b"HTTP/1.1 200 Ok\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        for piece in 1..input.len() {
            let mut answers = Answers::default();
            for part in input.chunks(piece) {
                answers.feed(part).unwrap();
            }
            assert_eq!(answers.done(), 3, "pieces of {piece}");
        }
    }

    #[test]
    fn a_wrong_answer_is_wrong() {
        let feed = |text: &[u8]| Answers::default().feed(text);
        assert_eq!(feed(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"), Err(Wrong));
        assert_eq!(feed(b"HTTP/1.1 200 OK\r\n\r\n"), Err(Wrong));
        assert_eq!(feed(&[b'x'; 5000]), Err(Wrong));
        assert_eq!(feed(&[b'x'; 4000]), Ok(()));
    }
}
