//! A client of HTTP/1.1 that reads answers strictly (RFC 9112 6.3), whatever their framing, without our codec.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The connection ended before its first byte.
    Closed,
    /// It ended within the answer.
    Cut,
    /// It went silent, or what came is no answer.
    Wrong(String),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// The server will close the connection.
    pub(super) closes: bool,
}

/// A connection, whose bytes are read as they are asked for.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: Vec<u8>,
    /// Of the buffer, taken already.
    taken: usize,
}

/// Connects. The ports of the loopback are shared with all that runs beside a soak: while none is free, others wait as
/// well.
pub(super) fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(to) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && start.elapsed() < WAIT_MAX => {
                thread::sleep(Duration::from_millis(100));
            }
            connected => return connected,
        }
    }
}

impl Connection {
    pub(super) fn open(to: SocketAddr) -> std::io::Result<Connection> {
        let stream = connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(WAIT_MAX))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        Ok(Connection { stream, buffer: Vec::new(), taken: 0 })
    }

    /// Sends a request; whether the server took it. If not, it may still have said why.
    pub(super) fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next final answer.
    pub(super) fn answer(&mut self, is_to_head: bool) -> Result<Answer, Broken> {
        loop {
            let answer = self.any_answer(is_to_head)?;
            if answer.status == 101 || answer.status >= 200 {
                return Ok(answer);
            }
        }
    }

    fn any_answer(&mut self, is_to_head: bool) -> Result<Answer, Broken> {
        let status_line = self.line()?;
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status: u16 = status.ok_or_else(|| Broken::Wrong(format!("no status line: {status_line:?}")))?;
        let (mut length, mut chunked, mut closes) = (None, false, false);
        loop {
            let line = self.more(Self::line)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| Broken::Wrong(format!("no field: {line:?}")))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Some(value.parse().map_err(|_| Broken::Wrong(line.clone()))?),
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        let mut body = Vec::new();
        let has_none = is_to_head || status < 200 || matches!(status, 204 | 304);
        match length {
            _ if has_none => {}
            Some(length) => self.more(|own| own.exactly(length, &mut body))?,
            None if chunked => self.more(|own| own.chunks(&mut body))?,
            None => return Err(Broken::Wrong(format!("{status} without a length"))),
        }
        Ok(Answer { status, body, closes })
    }

    /// So many raw bytes, behind a 101.
    pub(super) fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        self.exactly(count, &mut bytes).map(|()| bytes)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Result<(), Broken> {
        loop {
            let line = self.line()?;
            let size =
                usize::from_str_radix(&line, 16).map_err(|_| Broken::Wrong(format!("no chunk size: {line:?}")))?;
            self.exactly(size, body)?;
            let end = self.line()?;
            if !end.is_empty() {
                return Err(Broken::Wrong(format!("a chunk that does not end, or a trailer: {end:?}")));
            }
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> Result<String, Broken> {
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                self.taken += end + 2;
                return Ok(line);
            }
            if rest.len() > LINE_BYTES_MAX {
                return Err(Broken::Wrong("a line without an end".to_owned()));
            }
            self.read()?;
        }
    }

    fn exactly(&mut self, mut count: usize, to: &mut Vec<u8>) -> Result<(), Broken> {
        loop {
            let part = count.min(self.buffer.len() - self.taken);
            to.extend_from_slice(&self.buffer[self.taken..][..part]);
            self.taken += part;
            count -= part;
            if count == 0 {
                return Ok(());
            }
            self.read()?;
        }
    }

    /// Within an answer an end is wrong.
    fn more<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Broken>) -> Result<T, Broken> {
        read(self).map_err(|broken| match broken {
            Broken::Closed => Broken::Cut,
            other => other,
        })
    }

    fn read(&mut self) -> Result<(), Broken> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let mut room = [0; 16 * 1024];
        let is_within = !self.buffer.is_empty();
        loop {
            return match self.stream.read(&mut room) {
                Ok(0) if is_within => Err(Broken::Cut),
                Ok(0) => Err(Broken::Closed),
                Ok(len) => {
                    self.buffer.extend_from_slice(&room[..len]);
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    Err(Broken::Wrong(format!("nothing came for {} s", WAIT_MAX.as_secs())))
                }
                Err(_) if is_within => Err(Broken::Cut),
                Err(_) => Err(Broken::Closed),
            };
        }
    }
}

/// Whoever is silent for so long is stuck, however busy the machine is.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);
const LINE_BYTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    //! Answers of every framing are read, and an end within one is not taken for an answer.

    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener};

    use super::{Answer, Broken, Connection};

    /// What a client makes of these bytes.
    fn read(bytes: &'static [u8], is_to_head: bool) -> Vec<Result<Answer, Broken>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = Connection::open(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(bytes).unwrap();
        drop(server);
        let mut answers = Vec::new();
        loop {
            let answer = client.answer(is_to_head);
            let is_last = answer.is_err();
            answers.push(answer);
            if is_last {
                return answers;
            }
        }
    }

    fn answer(status: u16, body: &[u8], closes: bool) -> Result<Answer, Broken> {
        Ok(Answer { status, body: body.to_vec(), closes })
    }

    #[test]
    fn each_framing_is_read() {
        let both = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\
            HTTP/1.1 503 Busy\r\nconnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(read(both, false), [answer(200, b"ok", false), answer(503, b"abcd", true), Err(Broken::Closed)]);
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true)[0], answer(200, b"", false));
        assert_eq!(read(b"", false), [Err(Broken::Closed)]);
    }

    #[test]
    fn an_answer_that_is_cut_short_is_wrong() {
        for cut in [
            &b"HTTP/1.1 2"[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert!(matches!(read(cut, false)[..], [Err(Broken::Wrong(_) | Broken::Cut)]), "{}", cut.escape_ascii());
        }
        assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", false), [Err(Broken::Cut)]);
    }
}
