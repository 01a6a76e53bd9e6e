//! One thread that waits for a listener and for all that it accepts.

use std::error::Error;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventFlags};

/// A connection to a peer.
pub(crate) trait Connection {
    fn new(stream: TcpStream) -> Self;
}

/// Serves for ever. `go_on` is called when the kernel has something for a connection, with room to read into; after an
/// error the connection is closed.
pub(crate) fn serve<C: Connection>(
    mut go_on: impl FnMut(&OwnedFd, &mut C, EventFlags, &mut [u8]) -> io::Result<()>,
) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(peer_answers::address())?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), EventFlags::IN)?;
    println!("listening on http://{}", listener.local_addr()?);
    // By descriptor.
    let mut connections: Vec<Option<C>> = Vec::new();
    let (mut events, mut input) = (Vec::with_capacity(EVENTS), vec![0; INPUT_BYTES]);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if event.data.u64() == LISTENER {
                accept(&listener, &epoll, &mut connections);
                continue;
            }
            let place = &mut connections[event.data.u64() as usize];
            let Some(connection) = place else { continue };
            if go_on(&epoll, connection, event.flags, &mut input).is_err() {
                // Closing takes it out of the set.
                *place = None;
            }
        }
    }
}

/// One connection; the socket is readable again as long as there are more.
fn accept<C: Connection>(listener: &TcpListener, epoll: &OwnedFd, connections: &mut Vec<Option<C>>) {
    let Ok((stream, _)) = listener.accept() else { return };
    let index = stream.as_raw_fd() as usize;
    let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
    if ready.is_err() || epoll::add(epoll, &stream, data(&stream), EventFlags::IN).is_err() {
        return;
    }
    if connections.len() <= index {
        connections.resize_with(index + 1, || None);
    }
    connections[index] = Some(C::new(stream));
}

/// What the kernel is to say with the events of a connection.
pub(crate) fn data(stream: &TcpStream) -> epoll::EventData {
    epoll::EventData::new_u64(stream.as_raw_fd() as u64)
}

const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;
const EVENTS: usize = 1024;
const INPUT_BYTES: usize = 16 * 1024;
