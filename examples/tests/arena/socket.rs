//! A small blocking WebSocket client, for the programs and for the protocol that browsers are driven with.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use plimsoll_codec::ws::{Decoder, Event, FrameHead, Limits, Opcode, Role};

use crate::client::Client;
use crate::process::WAIT_MAX;

pub(crate) struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    input: Vec<u8>,
}

impl Socket {
    pub(crate) fn open(address: SocketAddr, target: &str) -> Self {
        let mut client = Client::connect(address);
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        client.send(head.as_bytes());
        assert_eq!(client.line().split(' ').nth(1), Some("101"));
        while !client.line().is_empty() {}
        let limits = Limits { message_bytes_max: 64 << 20, fragments_max: 1 << 16 };
        let (stream, input) = client.into_parts();
        Self { stream, decoder: Decoder::new(Role::Client, limits), input }
    }

    pub(crate) fn send(&mut self, text: &str) {
        let head = FrameHead::message(Opcode::Text, text.len() as u64).masked([1, 2, 3, 4]);
        let mut payload = text.as_bytes().to_vec();
        head.mask(&mut payload);
        let frame = [head.encode().as_bytes(), &payload].concat();
        self.stream.write_all(&frame).expect("the server takes the frame");
    }

    /// The next text; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut text = Vec::new();
        loop {
            let decoded = self.decoder.decode(&mut self.input, 0).expect("the server keeps to the protocol");
            let taken: Vec<u8> = self.input.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore => {
                    let mut bytes = [0; 16 * 1_024];
                    match self.stream.read(&mut bytes) {
                        Ok(0) => return None,
                        Ok(count) => self.input.extend_from_slice(&bytes[..count]),
                        Err(error) => panic!("nothing came for {WAIT_MAX:?}: {error}"),
                    }
                }
                Event::Data(range) => text.extend_from_slice(&taken[range]),
                Event::End => return Some(String::from_utf8(text).expect("UTF-8")),
                Event::Close { .. } => return None,
                Event::Begin { .. } | Event::Ping(_) | Event::Pong(_) => {}
            }
        }
    }
}
