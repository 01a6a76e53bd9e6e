//! The floor on epoll: one thread that counts the ends of requests and sends a fixed answer for each. No server that parses can cost less.
//!
//! `floor-epoll ADDR TARGET`: the answer is that to a `GET` of TARGET, made once; for `/ws` it echoes WebSocket messages ([`websocket`]). Prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

mod websocket;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use peer_answers::floor::{Answers, Counted};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

struct Connection {
    stream: TcpStream,
    counted: Counted,
    wants_room: bool,
}

struct Floor {
    epoll: rustix::fd::OwnedFd,
    answers: Answers,
    /// By descriptor.
    connections: Vec<Option<Connection>>,
}

impl Floor {
    fn accept(&mut self, listener: &TcpListener) {
        // The socket is readable again as long as there are more.
        let Ok((stream, _)) = listener.accept() else { return };
        let index = stream.as_raw_fd() as usize;
        let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        let data = epoll::EventData::new_u64(index as u64);
        if ready.is_err() || epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN).is_err() {
            return;
        }
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Connection { stream, counted: Counted::default(), wants_room: false });
    }

    fn serve(&mut self, index: usize, flags: epoll::EventFlags, input: &mut [u8]) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if !flags.intersection(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR).is_empty() {
            match connection.stream.read(input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.answers.received(&mut connection.counted, &input[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            let unsent = self.answers.next(&connection.counted);
            let blocked = match unsent {
                [] => false,
                unsent => match connection.stream.write(unsent) {
                    Ok(len) => {
                        self.answers.sent(&mut connection.counted, len);
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                    Err(error) => return Err(error),
                },
            };
            if blocked != connection.wants_room {
                connection.wants_room = blocked;
                // A peer that does not read is not read from either.
                let flags = if blocked { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
                let data = epoll::EventData::new_u64(index as u64);
                epoll::modify(&self.epoll, &connection.stream, data, flags)?;
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
    let listener = TcpListener::bind(peer_answers::address())?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    println!("listening on http://{}", listener.local_addr()?);
    let mut floor = Floor { epoll, answers, connections: Vec::new() };
    let mut events = Vec::with_capacity(EVENTS);
    let mut input = vec![0; INPUT_BYTES];
    loop {
        events.clear();
        match epoll::wait(&floor.epoll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                u64::MAX => floor.accept(&listener),
                index => {
                    if floor.serve(index as usize, event.flags, &mut input).is_err() {
                        // Closing takes it out of the set.
                        floor.connections[index as usize] = None;
                    }
                }
            }
        }
    }
}

const BACKLOG: i32 = 4096;
const EVENTS: usize = 1024;
const INPUT_BYTES: usize = 16 * 1024;
