//! What the task of a WebSocket waits with.

use crate::exchange::user_code::UserWaker;

/// What a task waits for.
#[derive(Default)]
pub(super) struct Mailbox {
    pub(super) reader: Option<UserWaker>,
    pub(super) writer: Option<UserWaker>,
    /// The task knows that it is over.
    pub(super) is_told: bool,
}

impl Mailbox {
    /// Something has come, or it is over.
    pub(super) fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    /// There is room, or it is over; whether anybody waited for that.
    pub(super) fn wake_writer(&mut self) -> bool {
        let waker = self.writer.take();
        let has_waited = waker.is_some();
        waker.into_iter().for_each(UserWaker::wake);
        has_waited
    }
}
