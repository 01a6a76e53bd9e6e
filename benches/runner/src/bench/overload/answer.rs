//! An answer in HTTP/1.1, in any split: its status, when to come back, and where it ends.

/// Where the reading of one answer stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    stage: Stage,
    /// Of a head or of the line of a chunk; below [`LINE_BYTES_MAX`].
    line: Vec<u8>,
    pub(super) status: u16,
    /// Seconds after which the server wants to be asked again.
    pub(super) retry_after: Option<u64>,
    /// The server will close the connection.
    pub(super) closes: bool,
    has_bytes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    /// So many bytes are left of the body.
    Body(u64),
    ChunkLine,
    /// So many bytes of a chunk, and the end of line behind it.
    Chunk(u64),
    Trailers,
    Done,
}

/// What came is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Answer {
    /// Something of it has come.
    pub(super) const fn is_begun(&self) -> bool {
        self.has_bytes
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Takes what has come, up to the end of the answer; how much that is.
    pub(super) fn feed(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        self.has_bytes |= !input.is_empty();
        let mut taken = 0;
        while taken < input.len() && self.stage != Stage::Done {
            let rest = &input[taken..];
            taken += match self.stage {
                Stage::Body(left) => self.body(left, rest.len()),
                Stage::Chunk(left) => {
                    let len = left.min(rest.len() as u64);
                    self.stage = if len == left { Stage::ChunkLine } else { Stage::Chunk(left - len) };
                    len as usize
                }
                Stage::Head | Stage::ChunkLine | Stage::Trailers | Stage::Done => self.line(rest)?,
            };
        }
        Ok(taken)
    }

    fn body(&mut self, left: u64, have: usize) -> usize {
        let len = left.min(have as u64);
        self.stage = if len == left { Stage::Done } else { Stage::Body(left - len) };
        len as usize
    }

    /// Takes bytes up to the end of a line, and looks at the whole line, or head.
    fn line(&mut self, rest: &[u8]) -> Result<usize, Malformed> {
        let len = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
        self.line.extend_from_slice(&rest[..len]);
        if self.line.len() > LINE_BYTES_MAX {
            return Err(Malformed);
        }
        let end: &[u8] = if self.stage == Stage::Head { b"\r\n\r\n" } else { b"\r\n" };
        if self.line.ends_with(end) {
            let line = std::mem::take(&mut self.line);
            let line = std::str::from_utf8(&line).map_err(|_| Malformed)?.trim_end();
            self.stage = match self.stage {
                Stage::Head => self.head(line)?,
                Stage::ChunkLine => match u64::from_str_radix(line, 16).map_err(|_| Malformed)? {
                    0 => Stage::Trailers,
                    size => Stage::Chunk(size.checked_add(2).ok_or(Malformed)?),
                },
                _ if line.is_empty() => Stage::Done,
                _ => Stage::Trailers,
            };
        }
        Ok(len)
    }

    fn head(&mut self, head: &str) -> Result<Stage, Malformed> {
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        self.status = status.ok_or(Malformed)?;
        let (mut length, mut chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse().map_err(|_| Malformed)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                self.closes = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("retry-after") {
                self.retry_after = value.parse().ok();
            }
        }
        match (self.status, length) {
            // An interim answer is followed by the one that counts.
            (100..=199, _) if self.status != 101 => Ok(Stage::Head),
            (101 | 204 | 304, _) | (_, Some(0)) => Ok(Stage::Done),
            (_, Some(length)) => Ok(Stage::Body(length)),
            (_, None) if chunked => Ok(Stage::ChunkLine),
            // It would end with the connection, and nobody could tell that from an answer that was cut.
            (_, None) => Err(Malformed),
        }
    }
}

const LINE_BYTES_MAX: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    //! Every framing ends where it should, in any split.

    use super::{Answer, Malformed};

    fn fed(input: &[u8], piece: usize) -> (Answer, usize) {
        let (mut answer, mut taken) = (Answer::default(), 0);
        for part in input.chunks(piece) {
            taken += answer.feed(part).unwrap();
        }
        (answer, taken)
    }

    #[test]
    fn splits_do_not_matter() {
        let refused = "HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbye";
        let chunked = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\nA: b\r\n\r\n";
        let (long, short) = ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 101 Switching\r\n\r\n");
        for piece in 1..150 {
            for (text, status) in [(refused, 503), (chunked, 200), (long, 200), (short, 101)] {
                let (answer, taken) = fed(text.as_bytes(), piece);
                assert!(answer.is_done() && taken == text.len(), "{text:?} in pieces of {piece}");
                let is_refused = status == 503;
                assert_eq!(
                    (answer.status, answer.closes, answer.retry_after),
                    (status, is_refused, is_refused.then_some(2))
                );
                for end in 1..text.len() {
                    assert!(!fed(&text.as_bytes()[..end], piece).0.is_done(), "{text:?} up to {end}");
                }
            }
        }
    }

    #[test]
    fn what_follows_is_left() {
        let (answer, taken) = fed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP", 100);
        assert!(answer.is_done() && taken == 40, "{taken}");
        assert!(!Answer::default().is_begun() && answer.is_begun());
    }

    #[test]
    fn what_is_no_answer_is_malformed() {
        for wrong in [
            &b"HTTP/1.0 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            &[b'x'; 9_000],
        ] {
            assert_eq!(Answer::default().feed(wrong), Err(Malformed));
        }
    }
}
