//! What answers requests, for the engine.

use std::rc::Rc;

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_runtime::JoinHandle;

use crate::exchange::handle::ExchangeHandle;
use crate::worker::state::WorkerState;

/// What answers requests.
pub(crate) trait Service: 'static {
    /// Starts on a request.
    fn start(
        &mut self,
        worker: &Rc<WorkerState>,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<Answered, NoRoom>;

    /// Whether some route is [marked](crate::memory::reserved_routes).
    fn has_marked(&self) -> bool {
        false
    }

    /// Whether that of a path is.
    fn is_marked(&self, _path: &str) -> bool {
        false
    }

    /// Bytes of the future of a handler that is not ready at once.
    fn handler_bytes(&self) -> usize {
        0
    }
}

/// What a service made of a request.
pub(crate) enum Answered {
    /// The answer has been written.
    Ready,
    /// It will come.
    Pending(JoinHandle<()>),
}

/// There was no room to start the handler.
pub(crate) struct NoRoom;
