//! A client of one request at a time, for what wrk cannot do: look at the answer, and stay.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::proc::OpenFiles;

/// What every server is asked for.
pub(super) const PATH: &str = "/pipeline";
/// As many connections as a measurement opens at most.
pub(super) const CONNECTIONS: usize = 10_000;
/// Files that may be open, here and in a server, so that all connections fit.
pub(super) const OPEN_FILES: u64 = CONNECTIONS as u64 + SPARE_FILES;

/// A keep-alive connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// From a port of an address of loopback: one address alone has too few ports for many connections.
    pub(super) fn open(from: Ipv4Addr, to: SocketAddr) -> io::Result<Connection> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.set_tcp_nodelay(true)?;
        socket.connect(&to.into())?;
        Ok(Connection { stream: socket.into() })
    }

    /// Sends one request and reads its answer, which must be 200 with `ok`.
    pub(super) fn ask(&mut self) -> io::Result<()> {
        self.send(0)?;
        self.receive()
    }

    /// Sends one request with so many bytes of a field that means nothing, in one write: a server that reads once would
    /// see the first piece of several.
    pub(super) fn send(&mut self, filler_bytes: usize) -> io::Result<()> {
        let filler =
            if filler_bytes == 0 { String::new() } else { format!("X-Filler: {}\r\n", "x".repeat(filler_bytes)) };
        self.stream.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: localhost\r\n{filler}\r\n").as_bytes())
    }

    /// Reads an answer, which must be 200 with `ok`.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let mut answer = [0; ANSWER_BYTES_MAX];
        let mut len = 0;
        while len < answer.len() {
            match self.stream.read(&mut answer[len..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => len += read,
            }
            if is_complete(&answer[..len])? {
                return Ok(());
            }
        }
        Err(unexpected(&answer))
    }
}

/// A connection that has asked so often.
pub(super) fn ask(from: Ipv4Addr, to: SocketAddr, requests: usize) -> io::Result<Connection> {
    let mut connection = Connection::open(from, to)?;
    for _ in 0..requests {
        connection.ask()?;
    }
    Ok(connection)
}

/// The clients' addresses in turns.
pub(super) fn from(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, FIRST_CLIENT + (index % CLIENTS) as u8)
}

/// How many connections the limits allow here.
pub(super) fn connections_here() -> Result<usize, String> {
    let open_files = OpenFiles::now().map_err(|error| format!("no limit of open files: {error}"))?;
    match connections(open_files.soft) {
        0 => Err(format!("{} open files are too few for many connections: raise ulimit -n", open_files.soft)),
        connections => Ok(connections),
    }
}

/// As many connections as are wanted, or as many as fit when so many files may be open.
fn connections(open_files: u64) -> usize {
    CONNECTIONS.min(usize::try_from(open_files.saturating_sub(SPARE_FILES)).unwrap_or(CONNECTIONS))
}

/// The whole answer, with its head, of a connection that is closed after it.
pub(crate) fn get(server: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = Connection::open(Ipv4Addr::LOCALHOST, server)?.stream;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(unexpected(answer.as_bytes())) }
}

/// The server answers as the load expects it.
pub(super) fn answers_ok(server: SocketAddr) -> Result<(), String> {
    let answered = Connection::open(Ipv4Addr::LOCALHOST, server).and_then(|mut connection| {
        // Twice: it has to keep the connection.
        connection.ask()?;
        connection.ask()
    });
    answered.map_err(|error| format!("GET {PATH}: {error}"))
}

/// 200 and the body `ok`, all of it; an error if it will never be that.
fn is_complete(answer: &[u8]) -> io::Result<bool> {
    let Some(head_len) = answer.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(false);
    };
    let (head, body) = answer.split_at(head_len);
    if !head.starts_with(b"HTTP/1.1 200 ") || !b"ok".starts_with(body) {
        return Err(unexpected(answer));
    }
    Ok(body.len() == 2)
}

fn unexpected(answer: &[u8]) -> io::Error {
    let shown = answer[..answer.len().min(80)].escape_ascii();
    io::Error::new(io::ErrorKind::InvalidData, format!("the answer is \"{shown}\""))
}

/// Files that are no connections; a server sizes its tables by the limit and keeps some free.
const SPARE_FILES: u64 = 512;
/// 127.0.0.2 to 127.0.0.21.
const FIRST_CLIENT: u8 = 2;
const CLIENTS: usize = 20;
/// A server that says nothing for so long does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer with its head is shorter.
const ANSWER_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests;
