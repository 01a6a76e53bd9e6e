//! Judges what a client received.

use plimsoll::{Errno, Error};

/// How an answer's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// One answer that is due.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    status: u16,
    pub(crate) framing: Framing,
    is_text: bool,
    pub(crate) is_head: bool,
    pub(crate) closes: bool,
    body: Vec<u8>,
}

impl Expected {
    pub(crate) fn text(body: Vec<u8>) -> Self {
        Self { is_text: true, ..Self::streamed(Some(body.len()), body) }
    }

    pub(crate) fn streamed(length: Option<usize>, body: Vec<u8>) -> Self {
        let framing = length.map_or(Framing::Chunked, Framing::Length);
        Self { status: 200, framing, is_text: false, is_head: false, closes: false, body }
    }

    pub(crate) fn error(status: u16) -> Self {
        Self { status, closes: true, ..Self::streamed(Some(0), Vec::new()) }
    }

    /// The head, without the date.
    fn head(&self, closes: bool) -> String {
        let length = match self.framing {
            Framing::Length(bytes) => format!("Content-Length: {bytes}\r\n"),
            // An answer to HEAD has no body to be in chunks.
            Framing::Chunked if self.is_head => String::new(),
            Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            Framing::UntilClose => String::new(),
        };
        let close = if closes { "Connection: close\r\n" } else { "" };
        let kind = if self.is_text { "Content-Type: text/plain; charset=utf-8\r\n" } else { "" };
        format!("HTTP/1.1 {}\r\n{length}{close}{kind}\r\n", self.status)
    }
}

/// How far the answers came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was due, and nothing else.
    Whole,
    /// The beginning of what was due.
    Cut,
    /// Some of what was due, and then an error that closes the connection.
    Refused,
}

/// What a client saw of answers with the statuses that their handlers give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Answers that came whole.
    pub(crate) whole: u64,
    /// Those that were cut behind their heads.
    pub(crate) midway: u64,
    /// It found no room for what it received, and went away.
    pub(crate) went_away: bool,
}

impl Seen {
    /// A receive failed: clients live under the server's line.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.went_away |= matches!(error, Error::OverBudget(_) | Error::Shed(_) | Error::System(Errno::NOBUFS));
    }
}

/// Statuses with which the server may end a connection for reasons of its own.
const REFUSALS: [u16; 4] = [400, 408, 500, 503];

/// An answer of the server's own: a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    closes: bool,
    line_bytes: usize,
}

impl Own {
    /// Of a head without date and advice. With memory and without, its fields have another order.
    fn of(head: &str) -> Option<Self> {
        let (mut closes, mut line_bytes, mut is_text) = (false, None, false);
        for line in head.lines().skip(1).filter(|line| !line.is_empty()) {
            match line.split_once(": ")? {
                ("Connection", "close") => closes = true,
                ("Content-Type", "text/plain; charset=utf-8") => is_text = true,
                ("Content-Length", digits) => line_bytes = digits.parse().ok(),
                _ => return None,
            }
        }
        line_bytes.filter(|_| is_text).map(|line_bytes| Self { closes, line_bytes })
    }

    /// How much of what follows is its line; `None` if that is none.
    fn line(self, rest: &[u8]) -> Option<usize> {
        let used = rest.len().min(self.line_bytes);
        let is_all = used == self.line_bytes;
        is_line(&rest[..used], is_all).then_some(used)
    }
}

/// Whether it is a line of text, or the beginning of one.
pub(crate) fn is_line(bytes: &[u8], is_all: bool) -> bool {
    let text = if is_all { bytes.strip_suffix(b"\n") } else { Some(bytes) };
    text.is_some_and(|text| text.iter().all(|byte| (b' '..=b'~').contains(byte)))
}

/// Compares received bytes with the answers that are due. Where memory is short, any of them may be a 503 instead.
pub(crate) fn judge(
    received: &[u8],
    expected: &[Expected],
    ended: bool,
    is_short: bool,
    seen: &mut Seen,
) -> Result<Verdict, String> {
    let mut rest = received;
    let mut sheds = false;
    for (at, due) in expected.iter().enumerate() {
        let Some(head_bytes) = rest.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
            return Ok(Verdict::Cut);
        };
        let (head, status) =
            normal(&rest[..head_bytes]).ok_or_else(|| format!("answer {at} has no head: {}", shown(rest)))?;
        rest = &rest[head_bytes..];
        // A server that stops says so with any answer; it is the last one then.
        let stops = head == due.head(true) && !due.closes;
        let own = Own::of(&head);
        if let Some(own) = own.filter(|own| due.status >= 400 && status == due.status && own.closes) {
            let used = own.line(rest).ok_or_else(|| format!("answer {at} is no line: {}", shown(rest)))?;
            if used < own.line_bytes {
                return Ok(Verdict::Cut);
            }
            rest = &rest[used..];
            continue;
        }
        if !stops && (due.status >= 400 || head != due.head(due.closes)) {
            // What a handler answers that finds no room.
            if let Some(own) = own.filter(|own| is_short && status == 503 && !own.closes) {
                sheds = true;
                let used = if due.is_head { Some(0) } else { own.line(rest) };
                let used = used.ok_or_else(|| format!("answer {at} is no line: {}", shown(rest)))?;
                if used < own.line_bytes && !due.is_head {
                    return Ok(Verdict::Cut);
                }
                rest = &rest[used..];
                continue;
            }
            let is_last = own.is_some_and(|own| own.closes && own.line(rest) == Some(rest.len()));
            if REFUSALS.contains(&status) && status != due.status && is_last {
                return Ok(Verdict::Refused);
            }
            return Err(format!(
                "answer {at}: {head:?} and not {:?}, {} bytes follow",
                due.head(due.closes),
                rest.len()
            ));
        }
        if due.is_head {
            seen.whole += 1;
            if stops {
                return last(rest);
            }
            continue;
        }
        let (used, body, is_whole) = match due.framing {
            Framing::Length(bytes) => {
                let used = rest.len().min(bytes);
                (used, rest[..used].to_vec(), used == bytes)
            }
            Framing::UntilClose => (rest.len(), rest.to_vec(), ended),
            Framing::Chunked => unchunk(rest).ok_or_else(|| format!("answer {at}: chunks broken: {}", shown(rest)))?,
        };
        // How long a body is that ends with the connection, nobody can tell before.
        let is_all = is_whole && due.framing != Framing::UntilClose;
        let is_right = if is_all { body == due.body } else { due.body.starts_with(&body) };
        if !is_right {
            return Err(format!("answer {at}: {} bytes of body that are not the {} due", body.len(), due.body.len()));
        }
        if !is_whole || body.len() < due.body.len() {
            seen.midway += 1;
            return Ok(Verdict::Cut);
        }
        seen.whole += 1;
        rest = &rest[used..];
        if stops {
            return last(rest);
        }
    }
    if rest.is_empty() {
        return Ok(if sheds { Verdict::Refused } else { Verdict::Whole });
    }
    // The beginning of what is said below, on a connection that broke.
    if !ended && !rest.windows(4).any(|window| window == b"\r\n\r\n") && begins_alike(rest, b"HTTP/1.1 ") {
        return Ok(Verdict::Cut);
    }
    // The server's own end of a connection on which nothing was asked.
    match normal(rest) {
        Some((_, status)) if REFUSALS.contains(&status) => Ok(Verdict::Refused),
        _ => Err(format!("more than all answers: {}", shown(rest))),
    }
}

fn begins_alike(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// After an answer that is the last one although more were due.
fn last(rest: &[u8]) -> Result<Verdict, String> {
    if rest.is_empty() { Ok(Verdict::Cut) } else { Err(format!("bytes after the last answer: {}", shown(rest))) }
}

/// A head with the status alone in its first line, and without date and advice when to come again.
fn normal(head: &[u8]) -> Option<(String, u16)> {
    let text = core::str::from_utf8(head).ok()?;
    let mut lines = text.split_inclusive("\r\n");
    let status: u16 = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let mut normal = format!("HTTP/1.1 {status}\r\n");
    normal.extend(
        lines.filter(|line| !line.starts_with("Date: ") && !line.to_ascii_lowercase().starts_with("retry-after")),
    );
    Some((normal, status))
}

/// Bytes used, the data in them, and whether the last chunk is among them; `None` if they are no chunks.
fn unchunk(bytes: &[u8]) -> Option<(usize, Vec<u8>, bool)> {
    let (mut at, mut data) = (0, Vec::new());
    loop {
        let rest = &bytes[at..];
        let Some(line) = rest.windows(2).position(|window| window == b"\r\n") else {
            return rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'\r').then_some((
                bytes.len(),
                data,
                false,
            ));
        };
        let size = usize::from_str_radix(core::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        let rest = &rest[line + 2..];
        let taken = size.min(rest.len());
        data.extend_from_slice(&rest[..taken]);
        let end = &rest[taken..];
        if taken < size || end.len() < 2 {
            return b"\r\n".starts_with(end).then_some((bytes.len(), data, false));
        }
        if !end.starts_with(b"\r\n") {
            return None;
        }
        at += line + 2 + size + 2;
        if size == 0 {
            return Some((at, data, true));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}
