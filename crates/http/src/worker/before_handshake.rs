//! What comes before a handshake of TLS: the PROXY header, which a proxy sends in the clear.
//!
//! ```text
//!   accepted --a part--> begun, kept in a lease --the rest--> a handshake is awaited, of the address that it names
//!      |                   ^      |
//!      |                   +------+ more, and still not the end
//!      +--no header, or a malformed one--> closed
//! ```
//!
//! What is there is looked at in the socket, and no more is taken from it than the header has: the handshake behind it
//! waits there for its turn, as others do. So a header that comes as a whole holds nothing.

use std::rc::Rc;

use plimsoll_pool::Lease;
use plimsoll_runtime::{Errno, Kind};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::handshakes::HandshakeFailure;
use crate::base::peers::{Source, by_ip};
use crate::base::proxy_header::{HEADER_BYTES_MAX, Malformed, parse};
use crate::worker::engine::Engine;
use crate::worker::service::Service;

/// What has come of a header.
enum Looked {
    Whole { source: Source, is_followed: bool },
    Part,
    No(HandshakeFailure),
}

impl<S: Service> Engine<S> {
    /// Something has come on a connection whose PROXY header has not; whether something is there behind that.
    pub(crate) fn read_proxy_header(&mut self, key: Key) -> bool {
        let looked = self.look_for_proxy_header(key);
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        match looked {
            Looked::Whole { source, is_followed } => {
                let found = worker.peers.borrow_mut().found(key, source, || table.peer_address(key).ok().map(by_ip));
                if found.is_err() {
                    drop(table);
                    self.refuse(key);
                    return false;
                }
                if !worker.is_stopping() {
                    table.schedule(key, worker.config.head_timeout);
                }
                if is_followed {
                    return true;
                }
            }
            Looked::Part => {}
            Looked::No(why) => {
                drop(table);
                if why == HandshakeFailure::ProxyHeader {
                    worker.counters().shed(Shed::Misbehaviour);
                }
                self.fail_handshake(key, why);
                return false;
            }
        }
        if table.await_readable(key).is_err() {
            drop(table);
            self.fail_handshake(key, HandshakeFailure::Memory);
        }
        false
    }

    /// Takes what is there of a header from the socket, and keeps it if that is not all.
    fn look_for_proxy_header(&mut self, key: Key) -> Looked {
        let worker = Rc::clone(&self.worker);
        let mut table = worker.table.borrow_mut();
        // With a byte more, which shows that something is behind the longest.
        let mut room = [0; HEADER_BYTES_MAX + 1];
        let kept = worker.peers.borrow_mut().take_begun(key);
        let kept_bytes = kept.as_ref().map_or(0, |kept| kept.len());
        room[..kept_bytes].copy_from_slice(kept.as_deref().unwrap_or_default());
        let seen = match table.peek_now(key, &mut room[kept_bytes..]) {
            Ok(seen @ 1..) => seen,
            Err(Errno::AGAIN) => {
                if let Some(kept) = kept {
                    worker.peers.borrow_mut().put_begun(key, kept);
                }
                return Looked::Part;
            }
            Ok(_) | Err(_) => return Looked::No(HandshakeFailure::Gone),
        };
        let came = &room[..kept_bytes + seen];
        match parse(came) {
            Ok(Some((source, used))) => {
                table.discard_now(key, used - kept_bytes);
                Looked::Whole { source, is_followed: used < came.len() }
            }
            Ok(None) => {
                drop(table);
                match self.kept_with(key, kept, &came[kept_bytes..]) {
                    Some(kept) => {
                        worker.table.borrow_mut().discard_now(key, seen);
                        worker.peers.borrow_mut().put_begun(key, kept);
                        Looked::Part
                    }
                    None => Looked::No(HandshakeFailure::Memory),
                }
            }
            Err(Malformed) => Looked::No(HandshakeFailure::ProxyHeader),
        }
    }

    /// What was kept of a header, with what has come.
    fn kept_with(&mut self, key: Key, kept: Option<Lease>, came: &[u8]) -> Option<Lease> {
        let Some(mut kept) = kept else {
            return self.retried(key, |engine| engine.worker.pool.try_copy(came, Kind::Buffers)).ok();
        };
        self.retried(key, |engine| engine.worker.pool.try_grow(&mut kept, came.len())).ok()?;
        let taken = kept.extend(came);
        debug_assert_eq!(taken, came.len(), "room was made for it");
        Some(kept)
    }
}
