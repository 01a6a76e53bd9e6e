//! The floor for WebSocket: one thread that sends each frame back without its mask. It knows the one key that the load
//! sends, takes every frame for a whole message, checks nothing, and keeps no more of a connection than its descriptor
//! and a part of a frame.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::poll;

struct Connection {
    stream: TcpStream,
    is_open: bool,
    /// Of a frame, or of the handshake.
    part: Vec<u8>,
}

impl poll::Connection for Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, is_open: false, part: Vec::new() }
    }
}

pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    let mut output = Vec::new();
    poll::serve(|_epoll, connection: &mut Connection, _flags, input| connection.go_on(input, &mut output))
}

impl Connection {
    fn go_on(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> io::Result<()> {
        let len = match self.stream.read(input) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        output.clear();
        if self.part.is_empty() {
            let used = self.echo(&mut input[..len], output);
            self.part.extend_from_slice(&input[used..len]);
        } else {
            let mut part = std::mem::take(&mut self.part);
            part.extend_from_slice(&input[..len]);
            let used = self.echo(&mut part, output);
            part.drain(..used);
            // One that is empty holds no memory.
            self.part = if part.is_empty() { Vec::new() } else { part };
        }
        // The load waits for each echo, so the socket always has room for it.
        if output.is_empty() { Ok(()) } else { self.stream.write_all(output) }
    }

    /// How much of the input was used.
    fn echo(&mut self, input: &mut [u8], output: &mut Vec<u8>) -> usize {
        if !self.is_open {
            let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return 0 };
            self.is_open = true;
            output.extend_from_slice(ACCEPTED);
            return end + 4;
        }
        let mut at = 0;
        loop {
            let rest = &mut input[at..];
            let (head, payload) = match *rest {
                [_, len, ..] if len & 0x7F < 126 => (2, usize::from(len & 0x7F)),
                [_, len, high, low, ..] if len & 0x7F == 126 => (4, usize::from(u16::from_be_bytes([high, low]))),
                _ => return at,
            };
            let Some(&mask) = rest.get(head..).and_then(|rest| rest.first_chunk::<4>()) else { return at };
            let frame = head + 4 + payload;
            if rest.len() < frame {
                return at;
            }
            let bytes = &mut rest[head + 4..frame];
            let (fours, last) = bytes.as_chunks_mut::<4>();
            for four in fours {
                *four = (u32::from_ne_bytes(*four) ^ u32::from_ne_bytes(mask)).to_ne_bytes();
            }
            for (byte, mask) in last.iter_mut().zip(mask) {
                *byte ^= mask;
            }
            output.extend_from_slice(&[rest[0], rest[1] & 0x7F]);
            output.extend_from_slice(&rest[2..head]);
            output.extend_from_slice(&rest[head + 4..frame]);
            at += frame;
        }
    }
}

/// The answer to the key of RFC 6455 1.3.
const ACCEPTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
