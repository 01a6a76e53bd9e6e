//! Members that are WebSockets: what those ask and tell.

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::SharedBytes;

use super::Post;
use super::members::{Incoming, Members};
use super::queue::Pushed;
use crate::websocket::{Group, Message, Number};

impl Group for Members {
    fn joined(&self, member: Number) -> Option<CloseCode> {
        self.call(member, |handler, member| handler.joined(member))
    }

    fn message(&self, member: Number, message: &Message) -> Option<CloseCode> {
        let message = message.as_text().map_or_else(|| Incoming::Binary(message.as_bytes()), Incoming::Text);
        self.call(member, |handler, member| handler.message(member, message))
    }

    fn first(&self, member: Number) -> Option<SharedBytes> {
        self.first_of(member, Post::frame)
    }

    fn begin_send(&self, member: Number) {
        self.begin_send_of(member);
    }

    fn sent(&self, member: Number) {
        self.sent_by(member);
    }

    fn discard(&self, member: Number) {
        self.drop_queue(member);
    }

    fn count_overrun(&self, member: Number) {
        if let Some(hub) = self.hub_of(member) {
            hub.0.count(Pushed::Overrun);
        }
    }

    fn left(&self, member: Number) {
        self.leave(member);
    }
}
