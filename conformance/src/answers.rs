//! A client's reading of what a server sent: answers with their framing, strictly (RFC 9112 6.3), without our codec.
//!
//! ```
//! use plimsoll_conformance::answers;
//!
//! let read = answers::read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nseen: GET /\r\n\r\nhi", |_| false)?;
//! assert_eq!((read[0].status, read[0].seen.as_deref(), read[0].says_close), (200, Some("GET /"), false));
//! # Ok::<(), String>(())
//! ```

use crate::h1::{End, Framed, Outcome, PROBE_SEEN, switched};

/// One answer, interim ones too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The status code.
    pub status: u16,
    /// The field `seen`: what the handler saw.
    pub seen: Option<String>,
    /// Whether it has `Connection: close`.
    pub says_close: bool,
    /// Whether it has a Date.
    pub has_date: bool,
    /// Whether it has Content-Length or Transfer-Encoding.
    pub has_framing: bool,
    /// What came behind a 101, or behind a head that says of nothing how long its body is: all until the end.
    pub rest: Option<Vec<u8>>,
}

impl Answered {
    /// Whether another answer to the same request follows.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }
}

/// Reads all that came until the connection ended. `is_head` says which of the final answers is to a HEAD request.
///
/// # Errors
///
/// What is wrong with the bytes, in words.
pub fn read(bytes: &[u8], is_head: impl Fn(usize) -> bool) -> Result<Vec<Answered>, String> {
    let (mut answers, mut rest, mut finals) = (Vec::new(), bytes, 0);
    while !rest.is_empty() {
        let (mut answer, framing, head_bytes) = head(rest)?;
        rest = &rest[head_bytes..];
        if !answer.is_interim() {
            let bodiless = is_head(finals) || matches!(answer.status, 204 | 304);
            let is_rest = !bodiless && (answer.status == 101 || matches!(framing, Framing::UntilClose));
            answer.rest = is_rest.then(|| rest.to_vec());
            rest = if bodiless { rest } else { body(rest, framing)? };
            finals += 1;
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// What the answers to a case come to: without the answer to the probe, and without interim ones unless the case is
/// about them.
#[must_use]
pub fn outcome(framed: &Framed, answers: &[Answered]) -> Outcome {
    let mut shown: Vec<&Answered> =
        answers.iter().filter(|answer| framed.wants_interim() || !answer.is_interim()).collect();
    let end = match shown.last() {
        Some(last) if last.seen.as_deref() == Some(PROBE_SEEN) => {
            shown.pop();
            End::Kept
        }
        _ => End::Closed,
    };
    let answers = shown.into_iter().map(|answer| match (&answer.seen, &answer.rest) {
        (Some(seen), _) => format!("{} {seen}", answer.status),
        (None, Some(rest)) => switched(answer.status, &rest.escape_ascii().to_string()),
        (None, None) => answer.status.to_string(),
    });
    Outcome { answers: answers.collect(), end }
}

/// How a body is delimited.
#[derive(Clone, Copy, Debug)]
enum Framing {
    UntilClose,
    Length(usize),
    Chunked,
}

fn head(bytes: &[u8]) -> Result<(Answered, Framing, usize), String> {
    let end =
        bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(|| wrong("no end of the head", bytes))?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong("a head that is not text", bytes))?;
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.strip_prefix("HTTP/1.1 ").or_else(|| status_line.strip_prefix("HTTP/1.0 "));
    let status = status.and_then(|rest| rest.get(..3)).and_then(|digits| digits.parse().ok());
    let status = status.ok_or_else(|| wrong("no status line", bytes))?;
    let mut answer =
        Answered { status, seen: None, says_close: false, has_date: false, has_framing: false, rest: None };
    let mut framing = Framing::UntilClose;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a line without a colon", bytes))?;
        if name.is_empty() || line.contains(['\r', '\n', '\0']) || name.contains(' ') {
            return Err(wrong("a field that is not one", bytes));
        }
        let value = value.trim_matches([' ', '\t']);
        match name.to_ascii_lowercase().as_str() {
            "content-length" | "transfer-encoding" if answer.has_framing => return Err(wrong("framed twice", bytes)),
            "content-length" => {
                answer.has_framing = true;
                framing = Framing::Length(value.parse().map_err(|_| wrong("a length that is none", bytes))?);
            }
            "transfer-encoding" => {
                answer.has_framing = true;
                framing = Framing::Chunked;
            }
            "connection" => {
                answer.says_close |= value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"))
            }
            "date" => answer.has_date = true,
            "seen" => answer.seen = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok((answer, framing, end + 4))
}

/// What follows a body.
fn body(bytes: &[u8], framing: Framing) -> Result<&[u8], String> {
    match framing {
        Framing::UntilClose => Ok(&[]),
        Framing::Length(length) => bytes.get(length..).ok_or_else(|| wrong("a body that is cut short", bytes)),
        Framing::Chunked => {
            let mut rest = bytes;
            loop {
                let line =
                    rest.windows(2).position(|window| window == b"\r\n").ok_or_else(|| wrong("no chunk", rest))?;
                let digits = std::str::from_utf8(&rest[..line]).unwrap_or_default();
                let size = usize::from_str_radix(digits, 16).map_err(|_| wrong("no chunk size", rest))?;
                let end = line + 2 + size;
                if rest.get(end..end + 2) != Some(b"\r\n") {
                    return Err(wrong("a chunk that does not end", rest));
                }
                rest = &rest[end + 2..];
                if size == 0 {
                    return Ok(rest);
                }
            }
        }
    }
}

fn wrong(what: &str, bytes: &[u8]) -> String {
    format!("{what}: {}", bytes[..bytes.len().min(80)].escape_ascii())
}

#[cfg(test)]
mod tests;
