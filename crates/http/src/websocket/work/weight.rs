//! What a WebSocket holds.
#![forbid(unsafe_code)]

use plimsoll_pool::PoolBox;

use super::Work;
use crate::websocket::Socket;
use crate::websocket::deflate::Streams;
use crate::websocket::wire::Phase;

impl Socket {
    /// Bytes of the pool, and of what is charged to it, that go back when it ends; 0 for one that has ended, and waits
    /// for its task to notice.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.wire.phase == Phase::Over { 0 } else { self.wire.work.as_ref().map_or(0, |work| work.held_bytes()) }
    }
}

impl Work {
    fn held_bytes(&self) -> usize {
        let input = self.input.as_ref().map_or(0, |lease| lease.class().bytes());
        let ready = self.ready.as_ref().map_or(0, |message| message.as_bytes().len());
        let streams = self.streams.as_ref().map_or(0, |streams| {
            let own = PoolBox::<Streams>::CLASS.bytes();
            own + streams.charged_bytes()
        });
        let own = PoolBox::<Self>::CLASS.bytes();
        own + input + self.output.held_bytes() + self.assembly.held_bytes() + ready + streams
    }
}
