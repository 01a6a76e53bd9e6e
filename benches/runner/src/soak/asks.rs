//! What honest clients ask the arena for, and what is due for it.

use std::fmt;

use super::ledger::{Fate, REFUSALS};
use crate::random::Random;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// Sent with it; none without one.
    pub(super) body: Option<Vec<u8>>,
    status: u16,
    due: Due,
}

/// The body of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Due {
    Exactly(Vec<u8>),
    /// Begins and ends so.
    Between(&'static str, String),
    /// Whatever it is.
    Anything,
}

/// Whether a refusal is to be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// Others attack: there may be no room.
    Storm,
    /// Nobody else is there: everything is answered.
    Calm,
}

impl Ask {
    /// Any of the arena's routes.
    pub(super) fn any(random: &mut Random) -> Ask {
        match random.below(12) {
            0 | 1 => Ask::small(random),
            2 => Ask::post("/upload", random.pick(&[0, 1, 700, 20_000, 250_000, 1_000_000]), random),
            3 => Ask::post("/echo", random.pick(&[1, 900, 17_000, 60_000]), random),
            4 | 5 => Ask::blob(random.pick(&[0, 1, 5_000, 65_536, 300_000, 1_000_000])),
            6 => Ask::get(format!("/delay/{}", random.below(60)), 200, Due::Exactly(b"ok".to_vec())),
            7 => Ask { method: "HEAD", due: Due::Exactly(Vec::new()), ..Ask::blob(4_000) },
            8 => Ask::get("/nowhere".to_owned(), 404, Due::Anything),
            9 => Ask { method: "DELETE", status: 405, due: Due::Anything, ..Ask::blob(1) },
            10 => {
                let (a, b) = (random.below(1_000), random.below(1_000));
                Ask::get(format!("/baseline11?a={a}&b={b}"), 200, Due::Exactly((a + b).to_string().into_bytes()))
            }
            _ => Ask::json(random.below(51)),
        }
    }

    /// One whose answer is short: for pipelines.
    pub(super) fn small(random: &mut Random) -> Ask {
        match random.below(3) {
            0 => Ask::json(random.below(51)),
            _ => Ask::get("/pipeline".to_owned(), 200, Due::Exactly(b"ok".to_vec())),
        }
    }

    /// So many bytes of the blob.
    pub(super) fn blob(bytes: usize) -> Ask {
        Ask::get(format!("/blob/{bytes}"), 200, Due::Exactly(vec![b'p'; bytes]))
    }

    /// An upload that says how long it is.
    pub(super) fn upload(bytes: usize, random: &mut Random) -> Ask {
        Ask::post("/upload", bytes, random)
    }

    fn json(count: usize) -> Ask {
        Ask::get(format!("/json/{count}?m=2"), 200, Due::Between("{\"items\":[", format!("],\"count\":{count}}}")))
    }

    fn get(path: String, status: u16, due: Due) -> Ask {
        Ask { method: "GET", path, body: None, status, due }
    }

    fn post(path: &str, bytes: usize, random: &mut Random) -> Ask {
        let first = random.below(256);
        let body: Vec<u8> = (0..bytes).map(|at| (first + at * 7 + at / 251) as u8).collect();
        let due = if path == "/echo" { body.clone() } else { bytes.to_string().into_bytes() };
        Ask { method: "POST", path: path.to_owned(), body: Some(body), status: 200, due: Due::Exactly(due) }
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// As HTTP/1.1 has it; a body says its length, or comes in chunks.
    pub(super) fn http1(&self, chunk_bytes: Option<usize>) -> Vec<u8> {
        let head = format!("{} {} HTTP/1.1\r\nHost: soak\r\n", self.method, self.path);
        let mut bytes = head.into_bytes();
        match (&self.body, chunk_bytes) {
            (None, _) => bytes.extend_from_slice(b"\r\n"),
            (Some(body), None) => {
                bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                bytes.extend_from_slice(body);
            }
            (Some(body), Some(chunk_bytes)) => {
                bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(chunk_bytes.max(1)) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }

    /// What an answer means; the error says why it is none to this.
    pub(super) fn judge(&self, weather: Weather, status: u16, body: &[u8]) -> Result<Fate, String> {
        if status != self.status {
            let is_refusal = weather == Weather::Storm && REFUSALS.contains(&status);
            return if is_refusal { Ok(Fate::Refused(status)) } else { Err(format!("{self}: answered {status}")) };
        }
        let is_due = match &self.due {
            Due::Exactly(due) => body == due,
            Due::Between(begin, end) => body.starts_with(begin.as_bytes()) && body.ends_with(end.as_bytes()),
            Due::Anything => true,
        };
        if is_due { Ok(Fate::Answered(status)) } else { Err(format!("{self}: {} bytes that are not due", body.len())) }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        self.body.as_ref().map_or(Ok(()), |body| write!(f, " with {} bytes", body.len()))
    }
}

#[cfg(test)]
mod tests {
    //! What is not due is told from what is.

    use super::{Ask, Weather};
    use crate::random::Random;
    use crate::soak::ledger::Fate;

    #[test]
    fn answers_are_judged() {
        let ask = Ask::blob(3);
        assert_eq!(ask.judge(Weather::Calm, 200, b"ppp"), Ok(Fate::Answered(200)));
        assert!(ask.judge(Weather::Storm, 200, b"pp").is_err() && ask.judge(Weather::Storm, 404, b"ppp").is_err());
        assert_eq!(ask.judge(Weather::Storm, 503, b""), Ok(Fate::Refused(503)));
        assert!(ask.judge(Weather::Calm, 503, b"").is_err(), "nobody is there to make room for");
        let json = Ask::json(2);
        assert!(json.judge(Weather::Calm, 200, b"{\"items\":[{},{}],\"count\":2}").is_ok());
        assert!(json.judge(Weather::Calm, 200, b"{\"items\":[{}],\"count\":1}").is_err());
    }

    #[test]
    fn bodies_are_framed() {
        let ask = Ask::post("/upload", 5, &mut Random::new(3));
        assert!(ask.http1(None).starts_with(b"POST /upload HTTP/1.1\r\nHost: soak\r\nContent-Length: 5\r\n\r\n"));
        let chunked = ask.http1(Some(4));
        assert!(chunked.windows(5).any(|five| five == b"\r\n4\r\n") && chunked.ends_with(b"\r\n0\r\n\r\n"));
    }
}
