//! A small blocking HTTP/1.1 client that trusts nobody.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::WAIT_MAX;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The only field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = found.next();
        assert!(found.next().is_none(), "{name} is there twice");
        first.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }
}

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout can be set");
        stream.set_write_timeout(Some(WAIT_MAX)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("an option can be set");
        Self { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server takes the bytes");
    }

    /// A second handle, to send from another thread.
    pub(crate) fn sender(&self) -> TcpStream {
        self.stream.get_ref().try_clone().expect("a descriptor")
    }

    /// A request with a body and its length, and the answer.
    pub(crate) fn request(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
        let length = if body.is_empty() && method != "POST" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: arena\r\n{fields}{length}\r\n");
        let mut sender = self.sender();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                sender.write_all(head.as_bytes()).expect("the server takes the head");
                sender.write_all(body).expect("the server takes the body");
            });
            self.answer(method)
        })
    }

    /// A request whose body comes in chunks.
    pub(crate) fn request_chunked(&mut self, method: &str, target: &str, fields: &str, chunks: &[&[u8]]) -> Answer {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: arena\r\n{fields}Transfer-Encoding: chunked\r\n\r\n");
        let mut sender = self.sender();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                sender.write_all(head.as_bytes()).expect("the server takes the head");
                for chunk in chunks {
                    sender.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).expect("the server takes the size");
                    sender.write_all(chunk).expect("the server takes the chunk");
                    sender.write_all(b"\r\n").expect("the server takes the end");
                }
                sender.write_all(b"0\r\n\r\n").expect("the server takes the last chunk");
            });
            self.answer(method)
        })
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.request("GET", target, "", b"")
    }

    /// The next answer, to a request of this method.
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let status_line = self.line();
        let status: u16 = match status_line.split(' ').collect::<Vec<_>>()[..] {
            ["HTTP/1.1", status, ..] => status.parse().expect("a status"),
            _ => panic!("no status line: {status_line:?}"),
        };
        let mut answer = Answer { status, fields: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a field");
            answer.fields.push((name.to_owned(), value.trim_start().to_owned()));
        }
        if method != "HEAD" && !matches!(status, 100..200 | 204 | 304) {
            self.body(&mut answer);
        }
        answer
    }

    fn body(&mut self, answer: &mut Answer) {
        if answer.field("transfer-encoding").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line(), 16).expect("a chunk's size");
                let before = answer.body.len();
                answer.body.resize(before + size, 0);
                self.stream.read_exact(&mut answer.body[before..]).expect("the chunk comes");
                assert_eq!(self.line(), "", "a chunk ends");
                if size == 0 {
                    return;
                }
            }
        }
        let length: usize = answer.field("content-length").expect("a length").parse().expect("a number");
        answer.body = vec![0; length];
        self.stream.read_exact(&mut answer.body).expect("the body comes");
    }

    /// A line without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        assert!(read.is_ok(), "{read:?}");
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("a line, not {line:?}")).to_owned()
    }

    /// A line that ends with this byte, with its end.
    pub(crate) fn line_ended_by(&mut self, end: u8) -> String {
        let mut line = Vec::new();
        let read = self.stream.read_until(end, &mut line);
        assert!(read.is_ok_and(|bytes| bytes > 0), "the stream goes on");
        String::from_utf8(line).expect("UTF-8")
    }

    /// The socket, and what was read of it and not used yet.
    pub(crate) fn into_parts(self) -> (TcpStream, Vec<u8>) {
        let rest = self.stream.buffer().to_vec();
        (self.stream.into_inner(), rest)
    }

    /// Reads so many bytes and drops them.
    pub(crate) fn skip(&mut self, bytes: u64) {
        let skipped = std::io::copy(&mut (&mut self.stream).take(bytes), &mut std::io::sink());
        assert_eq!(skipped.ok(), Some(bytes));
    }

    /// Whether the server has closed the connection, with nothing more to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.fill_buf(), Ok([]))
    }
}
