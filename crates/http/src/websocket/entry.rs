//! What the table has of a WebSocket.

use plimsoll_pool::PoolBox;

use super::handler::WebSocketHandler;
use super::mailbox::Mailbox;
use super::wire::Wire;

/// A WebSocket in the table.
pub(crate) struct Socket {
    pub(super) consumer: Consumer,
    pub(super) wire: Wire,
}

/// Who gets the messages.
pub(super) enum Consumer {
    /// Called.
    Handler(Box<dyn WebSocketHandler>),
    /// A task; `None` when it has dropped its socket, and of a member of a hub, which is noted in the [`Wire`].
    Task(Option<PoolBox<Mailbox>>),
}

/// Bytes of a parked WebSocket, beside those of every parked connection, with their size class. What its handler holds,
/// or its task, comes on top.
pub const WEBSOCKET_PARKED_BYTES: usize = PoolBox::<Socket>::CLASS.bytes();
/// Bytes of a WebSocket that is in a task, beside the task.
pub const WEBSOCKET_TASK_BYTES: usize = WEBSOCKET_PARKED_BYTES + PoolBox::<Mailbox>::CLASS.bytes();

const _: () = assert!(WEBSOCKET_PARKED_BYTES == 64, "a parked WebSocket is two cache lines with its entry");
const _: () = assert!(WEBSOCKET_TASK_BYTES == 128, "and its task has wakers");
