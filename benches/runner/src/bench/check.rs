//! Before anything is measured: every server answers the same, or it is left out.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::placement::Placement;
use super::process::Running;
use super::servers::{Ability, Server};
use super::swarm::websocket;

/// The bodies that are right: what the first server that was asked has answered.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    by_target: BTreeMap<&'static str, Vec<u8>>,
}

impl Bodies {
    /// Starts the server for each target, and asks it twice on one connection: it has to keep it.
    pub(super) fn check(
        &mut self,
        server: &'static Server,
        targets: &[(&'static str, Option<Ability>)],
        placement: &Placement,
    ) -> Result<(), String> {
        for &(target, _) in targets.iter().filter(|(_, needs)| server.cannot(*needs).is_none()) {
            let running = Running::start(server, target, placement)?;
            if targets.iter().any(|(other, needs)| *other == target && *needs == Some(Ability::WebSocket)) {
                talk(running.address(), target).map_err(|error| format!("{target}: {error}"))?;
                continue;
            }
            let upload = targets.iter().any(|(other, needs)| *other == target && *needs == Some(Ability::Upload));
            let request = if upload { post(target) } else { get(target) };
            let body = ask(running.address(), &request).map_err(|error| format!("{target}: {error}"))?;
            let expected = self.by_target.entry(target).or_insert_with(|| body.clone());
            if target == "/pipeline" && body != b"ok" {
                return Err(format!("{target}: the body is \"{}\"", shown(&body)));
            }
            if *expected != body {
                let lens = (body.len(), expected.len());
                return Err(format!("{target}: a body of {} bytes is not that of {} of the others", lens.0, lens.1));
            }
        }
        Ok(())
    }
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn post(target: &str) -> Vec<u8> {
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
    [head.as_bytes(), &[b'x'; UPLOAD_BYTES]].concat()
}

/// Opens a WebSocket, and has messages of several sizes sent back.
fn talk(server: SocketAddr, target: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.write_all(&websocket::handshake(target))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if !websocket::is_accepted(&head) {
        return Err(unexpected(&head));
    }
    for bytes in [0, 64, 125, 126, 5_000] {
        stream.write_all(&websocket::message(bytes))?;
        let mut frame = Vec::new();
        let (head_len, payload) = loop {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            frame.push(byte[0]);
            match websocket::frame(&frame) {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(_) => return Err(unexpected(&frame)),
            }
        };
        let mut echo = vec![0; payload as usize];
        stream.read_exact(&mut echo)?;
        if frame[0] != 0x82 || head_len != frame.len() || echo != vec![b'm'; bytes] {
            return Err(unexpected(&echo));
        }
    }
    Ok(())
}

/// The body of the second answer, which is that of the first.
fn ask(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    let mut ask = || {
        stream.write_all(request)?;
        answer(&mut stream)
    };
    let first = ask()?;
    let second = ask()?;
    if first == second { Ok(second) } else { Err(io::Error::other("two answers differ")) }
}

/// The body of one answer, which must be 200.
fn answer(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let mut input = Vec::new();
    let mut room = [0; 16 * 1024];
    loop {
        let head_len = input.windows(4).take(HEAD_BYTES_MAX).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head_len) = head_len {
            let length = content_length(&input[..head_len])?;
            if input.len() >= head_len + length {
                return Ok(input.split_off(head_len));
            }
        } else if input.len() >= HEAD_BYTES_MAX {
            return Err(unexpected(&input));
        }
        match stream.read(&mut room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => input.extend_from_slice(&room[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {}
            Err(error) => return Err(error),
        }
    }
}

fn content_length(head: &[u8]) -> io::Result<usize> {
    let text = std::str::from_utf8(head).map_err(|_| unexpected(head))?;
    let mut lines = text.split("\r\n");
    if !lines.next().is_some_and(|status| status.starts_with("HTTP/1.1 200")) {
        return Err(unexpected(head));
    }
    let length =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, value)| value.trim().parse().ok()).ok_or_else(|| unexpected(head))
}

fn unexpected(answer: &[u8]) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer is \"{}\"", shown(answer)))
}

fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(80)].escape_ascii().to_string()
}

/// A server that says nothing for so long does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 4096;
const UPLOAD_BYTES: usize = 100_000;

#[cfg(test)]
mod tests {
    //! Answers are read whole, and nothing else is an answer.

    use super::answer;

    #[test]
    fn a_body_is_read_whole() {
        assert_eq!(answer(&mut &b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\nok"[..]).unwrap(), b"ok");
        assert!(answer(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"[..]).is_err());
        assert!(answer(&mut &b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nok"[..]).is_err());
        assert!(answer(&mut &b"HTTP/1.1 200 OK\r\n\r\nok"[..]).is_err());
        assert!(answer(&mut &[b'x'; 9000][..]).is_err());
    }
}
