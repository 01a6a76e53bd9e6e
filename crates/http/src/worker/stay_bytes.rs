//! What a connection that stays holds, of each sort, and what a handler that waits does.

use plimsoll_pool::Class;

use crate::h1::active::EXCHANGE_BYTES;
use crate::h2::STREAM_BYTES;
use crate::hub::{EVENT_STREAM_BYTES, PLACE_BYTES};
use crate::memory::lasting::StayBytes;
use crate::websocket::{WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES};
use crate::worker::connection::CONNECTION_BYTES;

/// What a task's cell holds beside the handler's future: its header, its output and the way back to the connection.
pub(crate) const TASK_BYTES: usize = 256;
/// A request's head, which its handler may keep.
const HEAD_BYTES: usize = 256;
/// The armed receive and the readiness of a connection.
const ARMED_BYTES: usize = 48;
/// The same of a stream of HTTP/2: with a WebSocket on it, more than a connection's.
const TUNNEL_TASK_BYTES: usize = 1_024;
/// A connection that a task has: its socket.
const SOCKET_BYTES: usize = 128;

/// Bytes of a member of a hub that waits, in its tables: a WebSocket that is a connection, or a stream of events of
/// HTTP/1. Its armed receive and its readiness come on top.
pub const MEMBER_BYTES: usize = {
    let socket = CONNECTION_BYTES + WEBSOCKET_PARKED_BYTES;
    PLACE_BYTES + if socket > EVENT_STREAM_BYTES { socket } else { EVENT_STREAM_BYTES }
};

const _: () = assert!(MEMBER_BYTES <= 180, "a member that waits is small");

/// What one of each sort holds while nothing happens on it.
pub(crate) fn stay_bytes() -> StayBytes {
    StayBytes {
        called: CONNECTION_BYTES + ARMED_BYTES + WEBSOCKET_PARKED_BYTES,
        awaited: CONNECTION_BYTES + ARMED_BYTES + WEBSOCKET_TASK_BYTES + TASK_BYTES,
        member: MEMBER_BYTES + ARMED_BYTES,
        released: SOCKET_BYTES + ARMED_BYTES + TASK_BYTES,
        tunnel: STREAM_BYTES + TUNNEL_TASK_BYTES,
        events: CONNECTION_BYTES + ARMED_BYTES + EXCHANGE_BYTES + HEAD_BYTES,
    }
}

/// What a handler's future of so many bytes holds while it waits.
pub(crate) fn waiting_handler_bytes(handler_bytes: usize) -> usize {
    class_bytes(handler_bytes + TASK_BYTES) as usize
}

/// The bytes of the smallest class that takes `bytes`.
pub(crate) fn class_bytes(bytes: usize) -> u64 {
    Class::for_len(bytes).map_or(bytes, Class::bytes) as u64
}
