//! What a floor knows of a connection: where the end of a request may be, and how much of the answers is not yet sent.

/// A connection that is answered without its requests being read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// How much of `\r\n\r\n` the input ends with: 0 to 3.
    matched: usize,
    /// Where in an answer the sending stands.
    position: usize,
    unsent: usize,
}

/// An answer many times over, so that those to a whole pipeline are one piece.
#[derive(Debug)]
pub struct Answers {
    bytes: Vec<u8>,
    answer_bytes: usize,
}

impl Answers {
    /// Of the answer to this target of a `GET`; `None` if there is nothing at it.
    pub fn to(target: &str) -> Option<Answers> {
        let answer = crate::fixed(target)?;
        Some(Answers { bytes: answer.repeat((PIECE_BYTES / answer.len()).max(2)), answer_bytes: answer.len() })
    }

    /// What the connection is sent next; empty if nothing.
    pub fn next(&self, counted: &Counted) -> &[u8] {
        let end = (counted.position + counted.unsent).min(self.bytes.len());
        &self.bytes[counted.position..end]
    }

    /// The ends of requests in what has come make so many more answers.
    pub fn received(&self, counted: &mut Counted, input: &[u8]) {
        counted.unsent += count(&mut counted.matched, input) * self.answer_bytes;
    }

    /// So much of [`Answers::next`] has been sent.
    pub fn sent(&self, counted: &mut Counted, bytes: usize) {
        counted.unsent -= bytes;
        counted.position = (counted.position + bytes) % self.answer_bytes;
    }
}

fn count(matched: &mut usize, input: &[u8]) -> usize {
    let mut ends = 0;
    for &byte in input {
        *matched = match (*matched, byte) {
            (0 | 2, b'\r') => *matched + 1,
            (1, b'\n') => 2,
            (3, b'\n') => {
                ends += 1;
                0
            }
            (_, b'\r') => 1,
            _ => 0,
        };
    }
    ends
}

const PIECE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    //! Ends are found across any split, and what is sent adds up.

    use super::{Answers, Counted, count};

    #[test]
    fn ends_are_counted_across_splits() {
        let input = b"GET / HTTP/1.1\r\nA: \r\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        for split in 0..input.len() {
            let mut matched = 0;
            let first = count(&mut matched, &input[..split]);
            assert_eq!(first + count(&mut matched, &input[split..]), 2, "split at {split}");
        }
    }

    #[test]
    fn what_is_sent_is_whole_answers() {
        let answers = Answers::to("/pipeline").unwrap();
        let one = crate::fixed("/pipeline").unwrap();
        let (mut counted, mut sent) = (Counted::default(), Vec::new());
        answers.received(&mut counted, &b"\r\n\r\n".repeat(5000));
        while !answers.next(&counted).is_empty() {
            let piece = answers.next(&counted);
            let piece = &piece[..piece.len().min(1001)];
            sent.extend_from_slice(piece);
            let len = piece.len();
            answers.sent(&mut counted, len);
        }
        assert_eq!(sent, one.repeat(5000));
    }
}
