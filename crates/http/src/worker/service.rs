//! What answers requests, for the engine.

use std::rc::Rc;

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_runtime::JoinHandle;

use crate::exchange::handle::Ticket;
use crate::worker::state::Core;

/// What answers requests.
pub(crate) trait Service: 'static {
    /// Starts on a request.
    fn start(
        &mut self,
        core: &Rc<Core>,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        ticket: Ticket,
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

/// The paths of the routes, for handlers that ask for a parameter.
#[cfg(feature = "router")]
pub(crate) trait Paths {
    /// What is answered to a request that has no route.
    fn refusal(&self, method: &http::Method, path: &str) -> crate::exchange::response::Response;

    /// What stands in a path for a parameter of its route.
    fn param<'a>(&'a self, path: &'a str, name: &str) -> Option<&'a str>;

    /// All parameters of a path with their names, in order.
    #[cfg(feature = "serde")]
    fn params<'a>(&'a self, path: &'a str) -> Vec<(&'a str, &'a str)>;
}
