//! What a handler can know of the TLS session that its request came through.

use plimsoll_tls::TlsInfo;

use crate::Request;
use crate::worker::state::WorkerState;

impl Request {
    /// What was agreed on in the handshake of its connection, and the client's certificates, if it was asked for them
    /// and has shown some; `None` without TLS. They are copied here: ask once.
    ///
    /// ```
    /// use plimsoll_http::{Request, Response, StatusCode};
    ///
    /// async fn members_only(req: Request) -> Response {
    ///     match req.tls() {
    ///         Some(tls) if !tls.peer_certificates.is_empty() => Response::text("welcome\n"),
    ///         _ => Response::new(StatusCode::FORBIDDEN),
    ///     }
    /// }
    /// ```
    pub fn tls(&self) -> Option<TlsInfo> {
        let worker = WorkerState::of(self.handle()).ok()?;
        let mut table = worker.table.borrow_mut();
        table.with_transport(self.handle().id.key(), TlsInfo::of_transport).flatten()
    }
}
