//! Handlers and routes that a program calls itself, without a server: what adapters and tests do.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use http::Method;
use http::request::Parts;
use plimsoll_runtime::Result;

use crate::base::config::Config;
use crate::base::error::Error;
use crate::call::exchange::{Called, Shared};
use crate::call::head::Head;
use crate::call::incoming::CallBody;
use crate::call::run::{Call, Handling};
use crate::exchange::handle::{ExchangeHandle, Exchanges, Responder, WITHOUT_CONNECTION};
use crate::exchange::into_response::IntoResponse;
use crate::exchange::kept_head;
use crate::face::request::Request;
use crate::face::serve::{Answers, OnlyHere, Serve};

/// A handler, or a router, that a program calls itself.
///
/// A handler sees what it sees at a server: head, body, parameters, extensions, and it answers whole or streamed. What
/// belongs to a connection is not here: upgrades, tunnels, WebSockets and hubs are [`Error::Unsupported`], which
/// becomes a 501, and so is every CONNECT; informational responses are not sent. Nothing is counted, and no stop waits
/// for it. It is called on a worker of the runtime; each call has a clone of the handler.
///
/// ```
/// use core::future::poll_fn;
/// use plimsoll_http::{CallPart, Callable, Request, Router, StatusCode};
///
/// async fn hello(req: Request) -> String {
///     format!("hello {}\n", req.param("name").unwrap_or("nobody"))
/// }
///
/// let routes = Callable::new(Router::new().get("/{name}", hello))?;
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let (head, ()) = http::Request::get("/you").body(()).expect("a request").into_parts();
/// let mut call = routes.call(head, None, ());
/// assert_eq!(poll_fn(|cx| call.poll_head(cx)).await.status, StatusCode::OK);
/// let part = poll_fn(|cx| call.poll_part(cx)).await;
/// assert!(matches!(part, Some(Ok(CallPart::Data(data))) if data == "hello you\n"));
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Callable {
    answers: Arc<dyn Answers>,
    shared: Shared,
}

impl Callable {
    /// A handler, or routes.
    ///
    /// # Errors
    ///
    /// [`Error::Service`](plimsoll_runtime::Error::Service) for routes that cannot be there together, as of
    /// [`Server::serve`](crate::Server::serve).
    pub fn new<A>(service: impl Serve<A>) -> Result<Self> {
        let answers = service.answers(OnlyHere)?;
        let shared = Shared {
            config: Arc::default(),
            #[cfg(feature = "router")]
            paths: answers.paths(),
        };
        Ok(Self { answers, shared })
    }

    /// Sets the limits that requests have: on their heads, trailers and collected bodies. What is about connections has
    /// no effect.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.shared.config = Arc::new(config);
        self
    }

    /// Begins to answer a request: its head, its peer's address if somebody knows it, and its body.
    ///
    /// What is refused before the handler runs is an answer, too: 400 and the like for a head that the server would
    /// refuse, 501 for CONNECT, 503 at the memory line.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn call(&self, head: Parts, peer: Option<SocketAddr>, body: impl CallBody + 'static) -> Call {
        let length = body.length();
        let request = (head.method.clone(), head.version);
        let called = Rc::new(Called::new(self.shared.clone(), peer, request, body));
        match self.handling(&called, head, length) {
            Ok(call) => call,
            Err(error) => Call::answered(called, error.into_response()),
        }
    }

    fn handling(&self, called: &Rc<Called>, head: Parts, length: Option<u64>) -> Result<Call, Error> {
        if head.method == Method::CONNECT {
            return Err(WITHOUT_CONNECTION);
        }
        let parsed = Head::of(&head, length, &self.shared.config.limits)?;
        let kept = kept_head::keep(called.pool(), &parsed.view(), parsed.slots())?;
        let port: Rc<dyn Exchanges> = called.clone();
        let handle = ExchangeHandle::new(port, Called::id());
        let mut request = Request::new(kept, &parsed.view(), handle.clone());
        if !head.extensions.is_empty() {
            *request.extensions_mut() = head.extensions;
        }
        let answer = self.answers.answer(request);
        let mut responder = Responder::new(handle);
        let handler: Handling = Box::pin(async move {
            let mut response = answer.await;
            poll_fn(|cx| responder.poll_answer(cx, &mut response)).await;
        });
        Ok(Call::new(Rc::clone(called), handler)?)
    }
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callable")
    }
}
