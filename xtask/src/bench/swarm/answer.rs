//! The answers on a connection: counted, and looked at as far as a client must.

/// Where the reading stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Of a head that is not complete; below [`HEAD_BYTES_MAX`].
    head: Vec<u8>,
    body_left: u64,
    done: u64,
}

/// The server said something else than 200, or nothing that is HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrong;

impl Answers {
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
            let before = self.head.len();
            self.head.extend_from_slice(&input[..input.len().min(HEAD_BYTES_MAX - before)]);
            let from = before.saturating_sub(3);
            let Some(end) = self.head[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
                return if self.head.len() < HEAD_BYTES_MAX { Ok(()) } else { Err(Wrong) };
            };
            let head_len = from + end + 4;
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

    use super::{Answers, Wrong};

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
