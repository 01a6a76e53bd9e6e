//! The server as its user sees it: bind, configure, serve.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::net::SocketAddr;
use ::core::pin::Pin;
use ::core::task::Poll;
use std::rc::Rc;
use std::sync::Arc;

use http::{Method, StatusCode};
use plimsoll_codec::h1::{self, FieldSlot, RequestView};
use plimsoll_pool::catch_panic;
use plimsoll_runtime::net::transport::MakeTransport;
use plimsoll_runtime::net::{Address, ListenAddress, ListenOptions, Listener, Table, TableConfig};
use plimsoll_runtime::worker_tasks;
use plimsoll_runtime::{JoinHandle, Result, Spare, Started, spawn, workers};

use crate::RequestRef;
use crate::base::access_record::AccessRecord;
use crate::base::access_record::LogHook;
use crate::base::config::{Config, Http2};
use crate::base::counters::Counters;
use crate::base::peers::Addresses;
use crate::base::stop::ServerHandle;
use crate::exchange::handle::{ExchangeHandle, Responder};
use crate::exchange::kept_head;
use crate::exchange::response::Response;
use crate::face::request::Request;
use crate::face::serve::{OnlyHere, Serve, Serving};
use crate::worker::engine;
use crate::worker::service::Answered;
use crate::worker::service::NoRoom;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

/// An HTTP server: HTTP/1.1, and HTTP/2 with clients that begin with its preface (see [`Config::http2`]).
///
/// [`serve`](Self::serve) runs the handler on every worker of the runtime, each with a listener of its own, until the
/// runtime is asked to stop.
#[must_use = "a server serves once `serve` is awaited"]
pub struct Server {
    /// At least one.
    listeners: Vec<Listening>,
    handle: ServerHandle,
    stops_with: Option<Pin<Box<dyn Future<Output = ()>>>>,
    config: Config,
    counters: Counters,
    log: Option<LogHook>,
}

/// Where it listens, and what carries the connections of there.
struct Listening {
    at: Listener,
    transport: Option<MakeTransport>,
}

impl Server {
    /// Binds to an address, such as `127.0.0.1:8080`, `[::]:8080` or `unix:/run/app.sock`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// See [`SocketListener::bind`](plimsoll_runtime::net::SocketListener::bind).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn bind(address: impl TryInto<ListenAddress<Address>>) -> Result<Self> {
        Ok(Self::from_listener(Listener::bind(address)?))
    }

    /// Binds with options, such as the length of the queue of connections that wait to be accepted (`backlog`).
    ///
    /// # Errors
    ///
    /// See [`SocketListener::bind_with`](plimsoll_runtime::net::SocketListener::bind_with).
    ///
    /// # Panics
    ///
    /// For a backlog of 0 or more than 65,535, and outside of a runtime.
    pub fn bind_with(address: impl TryInto<ListenAddress<Address>>, options: ListenOptions) -> Result<Self> {
        Ok(Self::from_listener(Listener::bind_with(address, options)?))
    }

    /// Serves a listener that was bound before, or that another process has handed over.
    pub fn from_listener(listener: impl Into<Listener>) -> Self {
        Self {
            listeners: vec![Listening { at: listener.into(), transport: None }],
            handle: ServerHandle::default(),
            stops_with: None,
            config: Config::default(),
            counters: Counters::new(workers()),
            log: None,
        }
    }

    /// Listens at one more address, for the same requests: such as `[::1]:8080` beside `127.0.0.1:8080`, or a Unix
    /// socket beside TCP. All are counted together, and one drain is for all.
    ///
    /// For another router there, or other limits, make another server. It may [count with](Self::count_with) this
    /// one.
    ///
    /// ```
    /// use plimsoll_http::{Request, Router, Server};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let server = Server::bind("127.0.0.1:0")?.also_bind("unix:@an-example")?;
    /// assert_eq!(server.local_addresses().count(), 2);
    /// # plimsoll_runtime::Spawner::current().stop();
    /// server.serve(async |_: Request| "hello\n").await
    /// # })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn also_bind(self, address: impl TryInto<ListenAddress<Address>>) -> Result<Self> {
        Ok(self.also_from_listener(Listener::bind(address)?))
    }

    /// As [`also_bind`](Self::also_bind), with a listener that was bound before.
    pub fn also_from_listener(mut self, listener: impl Into<Listener>) -> Self {
        self.listeners.push(Listening { at: listener.into(), transport: None });
        self
    }

    /// Stops this server when `stop` is ready, as [`ServerHandle::stop`] does. The runtime's stop stops it as well.
    ///
    /// ```
    /// use plimsoll_http::{Request, Server};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let minute = plimsoll_runtime::sleep(core::time::Duration::from_millis(1));
    /// let server = Server::bind("127.0.0.1:0")?.with_graceful_shutdown(minute);
    /// server.serve(async |_: Request| "hello\n").await
    /// # })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub fn with_graceful_shutdown(mut self, stop: impl Future<Output = ()> + 'static) -> Self {
        self.stops_with = Some(Box::pin(stop));
        self
    }

    /// What stops this server alone, from anywhere.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Sets the limits.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Speaks HTTP/2 alone, with clients that know it beforehand: [`Config::http2`] becomes [`Http2::Only`]. Call it
    /// after [`config`](Self::config).
    pub fn http2_only(mut self) -> Self {
        self.config.http2 = Http2::Only;
        self
    }

    /// Counts what it does with what another server of this runtime does, which has given its
    /// [`counters`](Self::counters). Limits on the number of connections then hold for both together.
    pub fn count_with(mut self, counters: Counters) -> Self {
        self.counters = counters;
        self
    }

    /// Has `write` called with each answer, on the worker that gave it. For lines in a file see
    /// [`AccessLog`](crate::AccessLog).
    pub fn access_log(mut self, write: impl Fn(&AccessRecord<'_>) + Send + Sync + 'static) -> Self {
        self.log = Some(LogHook(Arc::new(write)));
        self
    }

    /// Speaks HTTP over TLS at the address that was given last: by [`bind`](Self::bind), or one of those after it.
    /// HTTP/2 is chosen by ALPN, and every connection's handshake has the time of a head
    /// ([`Config::head_timeout`]).
    ///
    /// ```no_run
    /// use plimsoll_http::tls::TlsConfig;
    /// use plimsoll_http::{Request, Server};
    ///
    /// # async fn serve() -> plimsoll_runtime::Result<()> {
    /// let tls = TlsConfig::from_files("chain.pem", "key.pem").expect("a certificate with its key");
    /// let server = Server::bind("127.0.0.1:8080")?.also_bind("127.0.0.1:8443")?.tls(&tls);
    /// server.serve(async |_: Request| "hello\n").await
    /// # }
    /// ```
    #[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
    pub fn tls(self, config: &plimsoll_tls::TlsConfig) -> Self {
        self.transport(config.make_transport())
    }

    /// Has the bytes of connections at the address that was given last carried by a transport, beneath HTTP/1.1, HTTP/2
    /// and WebSockets, and what leaves HTTP.
    #[doc(hidden)]
    pub fn transport(mut self, make: MakeTransport) -> Self {
        self.listeners.last_mut().expect("a server is made with a listener").transport = Some(make);
        self
    }

    /// The address it listens at, with the port that was taken for 0.
    ///
    /// # Panics
    ///
    /// When it listens at a Unix socket: see [`local_address`](Self::local_address).
    pub fn local_addr(&self) -> SocketAddr {
        self.local_address().ip().expect("a server at a Unix socket has no IP address: ask for `local_address`")
    }

    /// The address that it listens at, of either family: the first.
    pub fn local_address(&self) -> Address {
        self.listeners[0].at.local_addr()
    }

    /// All addresses that it listens at.
    pub fn local_addresses(&self) -> impl Iterator<Item = Address> {
        self.listeners.iter().map(|listening| listening.at.local_addr())
    }

    /// What the server has done, to be read while it serves.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// Answers every request with what a [`Router`](crate::Router) or one handler returns, on every worker, until the
    /// runtime is asked to stop and what runs has finished.
    ///
    /// ```no_run
    /// use plimsoll_http::{Request, Router, Server};
    ///
    /// # async fn serve() -> plimsoll_runtime::Result<()> {
    /// let routes = Router::new().get("/", async |_: Request| "hello\n");
    /// Server::bind("127.0.0.1:8080")?.serve(routes).await
    /// # }
    /// ```
    ///
    /// A handler that panics answers 500 and closes that connection alone. When the client goes away, the handler's
    /// future is dropped at its next await.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](plimsoll_runtime::Error::Config) for limits out of their range, see [`Config::validate`];
    /// [`Error::Service`](plimsoll_runtime::Error::Service) for routes that cannot be there together, whose source says
    /// which one and why; and at once when a worker cannot serve, see
    /// [`SocketListener::on_every_worker`](plimsoll_runtime::net::SocketListener::on_every_worker).
    pub fn serve<A>(self, service: impl Serve<A>) -> Serving {
        service.serve(self, OnlyHere)
    }

    /// As [`serve`](Self::serve), for handlers that answer at once from the borrowed request: the head is not even
    /// copied. A request's body cannot be read; it is dropped.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    pub fn serve_ready<H>(self, handler: H) -> Serving
    where
        H: for<'a> Fn(RequestRef<'a>) -> Response + Clone + Send + 'static,
    {
        Serving::new(self.serve_with(move || ReadyHandler(handler.clone())))
    }

    pub(crate) async fn serve_with<S: Service>(self, service: impl Fn() -> S + Clone + Send + 'static) -> Result<()> {
        self.config.validate()?;
        tell_of_handlers(service().handler_bytes());
        let handle = self.handle;
        let asks = self.stops_with.map(|stop| spawn(ask_after(stop, handle.clone()))).transpose()?;
        let _asks = asks.map(JoinHandle::abort_on_drop);
        let parts = Parts {
            config: self.config,
            counters: self.counters,
            addresses: Addresses::default(),
            log: self.log,
            handle: handle.clone(),
        };
        // Each has tasks of its own on the workers: this one waits until they end.
        let serve = |listener, parts, service| {
            let handle = handle.clone();
            Box::pin(async move { serve_at(listener, parts, service).await.inspect_err(|_| handle.stop()) })
        };
        let mut listeners = self.listeners.into_iter();
        let first = listeners.next().expect("a server is made with a listener");
        let others = listeners.map(|listener| serve(listener, parts.clone(), service.clone()));
        let mut serving: Vec<_> = others.collect();
        serving.push(serve(first, parts, service));
        let mut ended = Ok(());
        poll_fn(|cx| {
            serving.retain_mut(|serving| match serving.as_mut().poll(cx) {
                Poll::Ready(done) => {
                    if ended.is_ok() {
                        ended = done;
                    }
                    false
                }
                Poll::Pending => true,
            });
            if serving.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        ended
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.local_addresses().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// Asks a server to stop when a future of its user is ready.
async fn ask_after(stop: Pin<Box<dyn Future<Output = ()>>>, handle: ServerHandle) {
    stop.await;
    handle.stop();
}

/// What the workers of a server have of it.
#[derive(Clone)]
struct Parts {
    config: Config,
    counters: Counters,
    addresses: Addresses,
    log: Option<LogHook>,
    handle: ServerHandle,
}

/// Serves at one listener, on every worker.
fn serve_at<S: Service>(
    listening: Listening,
    parts: Parts,
    service: impl Fn() -> S + Clone + Send + 'static,
) -> impl Future<Output = Result<()>> {
    let Listening { at, transport } = listening;
    at.on_every_worker(move |at| serve_here(Listening { at, transport: transport.clone() }, parts.clone(), service()))
}

async fn serve_here<S: Service>(listening: Listening, parts: Parts, service: S) -> Result<()> {
    let Parts { config, counters, addresses, log, handle } = parts;
    // What is beyond the configured number is accepted, to be told so.
    let turned_away = h1::error_response(&Method::GET, StatusCode::SERVICE_UNAVAILABLE);
    let no_delay = config.tcp.no_delay;
    let table = Table::new(listening.at, TableConfig { no_delay, turned_away, ..TableConfig::default() })?;
    let table = table.carried_by(listening.transport);
    engine::run(WorkerState::new(table, config, counters, addresses, log), service, handle).await
}

/// A handler's future that is larger takes more than all the rest of a request.
const LARGE_HANDLER_BYTES: usize = 16 * 1_024;

/// Says at the start what each handler that waits holds.
fn tell_of_handlers(handler_bytes: usize) {
    if handler_bytes > LARGE_HANDLER_BYTES {
        tracing::warn!(
            handler_bytes,
            "each handler that waits holds so much: box what is large in it, and what it calls, or fewer fit the line"
        );
    } else {
        tracing::debug!(handler_bytes, "each handler that waits holds so much");
    }
}

/// Async handlers. One cell for a handler's future is kept ready, so that one that is ready at once costs no
/// allocation.
pub(crate) struct Handlers<M, F: Future<Output = ()> + 'static> {
    start: M,
    spare: Option<Spare<F>>,
}

impl<M, F> Handlers<M, F>
where
    M: Fn(Request, Responder) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    pub(crate) fn new(start: M) -> Self {
        Self { start, spare: None }
    }
}

impl<M, F> Service for Handlers<M, F>
where
    M: Fn(Request, Responder) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    fn start(
        &mut self,
        worker: &Rc<WorkerState>,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<Answered, NoRoom> {
        let spare = match self.spare.take().map_or_else(worker_tasks::spare, Ok) {
            Ok(spare) => spare,
            Err(_) => return Err(NoRoom),
        };
        let Ok(head) = kept_head::keep(&worker.pool, view, slots) else {
            self.spare = Some(spare);
            return Err(NoRoom);
        };
        // The request is made where the handler's future is: it is not moved there.
        let make = || (self.start)(Request::new(head, view, handle.clone()), Responder::new(handle));
        Ok(match worker_tasks::start(spare, make) {
            Started::Ready((), spare) => {
                self.spare = Some(spare);
                Answered::Ready
            }
            Started::ReadyNoSpare(()) => Answered::Ready,
            Started::Pending(handler) => Answered::Pending(handler),
            Started::Panicked(_, spare) => {
                self.spare = spare;
                Answered::Ready
            }
        })
    }

    fn handler_bytes(&self) -> usize {
        size_of::<F>()
    }
}

/// Handlers that answer at once.
struct ReadyHandler<H>(H);

impl<H> Service for ReadyHandler<H>
where
    H: for<'a> Fn(RequestRef<'a>) -> Response + 'static,
{
    fn start(
        &mut self,
        _core: &Rc<WorkerState>,
        view: &RequestView<'_>,
        _slots: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<Answered, NoRoom> {
        let responder = Responder::new(handle);
        match catch_panic(|| (self.0)(*view)) {
            Some(response) => responder.answer(response),
            // Answered with 500 as the responder is dropped.
            None => drop(responder),
        }
        Ok(Answered::Ready)
    }
}
