//! The floor on epoll: one thread that counts the ends of requests and sends a fixed answer for each. No server that
//! parses can cost less.
//!
//! `floor-epoll ADDR TARGET`: the answer is that to a `GET` of TARGET, made once; for `/ws` it echoes WebSocket messages ([`websocket`]). Prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

mod poll;
mod websocket;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use peer_answers::floor::{Answers, Counted};
use rustix::event::epoll::{self, EventFlags};

struct Connection {
    stream: TcpStream,
    counted: Counted,
    wants_room: bool,
}

impl poll::Connection for Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, counted: Counted::default(), wants_room: false }
    }
}

impl Connection {
    fn go_on(&mut self, answers: &Answers, epoll: &OwnedFd, flags: EventFlags, input: &mut [u8]) -> io::Result<()> {
        if !flags.intersection(EventFlags::IN | EventFlags::HUP | EventFlags::ERR).is_empty() {
            match self.stream.read(input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => answers.received(&mut self.counted, &input[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let unsent = answers.next(&self.counted);
            let blocked = match unsent {
                [] => false,
                unsent => match self.stream.write(unsent) {
                    Ok(len) => {
                        answers.sent(&mut self.counted, len);
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                    Err(error) => return Err(error),
                },
            };
            if blocked != self.wants_room {
                self.wants_room = blocked;
                // A peer that does not read is not read from either.
                let flags = if blocked { EventFlags::OUT } else { EventFlags::IN };
                epoll::modify(epoll, &self.stream, poll::data(&self.stream), flags)?;
            }
            return Ok(());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(2).unwrap_or_else(|| "/pipeline".into());
    if target == "/ws" {
        return websocket::serve();
    }
    let answers = Answers::to(&target).ok_or("nothing at this target")?;
    poll::serve(|epoll, connection: &mut Connection, flags, input| connection.go_on(&answers, epoll, flags, input))
}
