//! The request that a handler gets.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::net::{IpAddr, SocketAddr};
use ::core::task::{Context, Poll};
use std::sync::LazyLock;

use http::{Extensions, Method, Version};
use plimsoll_codec::h1::{Framing, RequestHead, RequestView};
use plimsoll_runtime::Lease;

use crate::base::forwarded;
use crate::exchange::handle::ExchangeHandle;
use crate::exchange::head::ResponseHead;
use crate::exchange::interim;
#[cfg(feature = "router")]
use crate::exchange::paths::Paths;
use crate::exchange::trailers::Trailers;
use crate::face::body::BodyWriter;
use crate::face::upgrade::{self, Upgraded};
use crate::websocket::{self, WebSocket, WebSocketConfig, WebSocketHandler};
use crate::worker::state::WorkerState;
use crate::{Error, Misuse, Response};

/// An owned request: one lease that holds the head and where its fields are, and a handle to its body.
///
/// The body is not read before the handler asks for it, and never collected unless the handler says so.
pub struct Request {
    /// The head's bytes, zeros up to a multiple of eight, then eight bytes for each field. A head does not end with a
    /// zero.
    head: Lease,
    parsed: RequestHead,
    rare: Option<Box<Rare>>,
    handle: ExchangeHandle,
}

// One that is larger is moved by calls of `memcpy`, and it is moved several times.
const _: () = assert!(size_of::<Request>() <= 128);

/// What few requests have.
struct Rare {
    /// Informational responses that the handler has sent.
    interims: u32,
    /// Bytes of the body that the handler may still read.
    body_bytes_left: u64,
    extensions: Extensions,
}

/// Those of a request without any.
static NO_EXTENSIONS: LazyLock<Extensions> = LazyLock::new(Extensions::new);

impl Request {
    /// With what [`keep`](crate::exchange::kept_head::keep) has kept of the same head.
    pub(crate) fn new(kept: Lease, view: &RequestView<'_>, handle: ExchangeHandle) -> Self {
        let request = Self { head: kept, parsed: view.request().clone(), rare: None, handle };
        debug_assert_eq!(request.head_bytes(), view.head().len(), "a head does not end with a zero");
        request
    }

    pub(crate) fn handle(&self) -> &ExchangeHandle {
        &self.handle
    }

    /// The head with the zeros behind it, and where its fields are.
    fn parts(&self) -> (&[u8], &[[u8; 8]]) {
        let (head, slots) = self.head.split_at(self.head.len() - 8 * usize::from(self.parsed.fields));
        (head, slots.as_chunks().0)
    }

    /// Where the fields are, in the head that [`view`](Self::view) shows.
    pub(crate) fn slots(&self) -> &[[u8; 8]] {
        self.parts().1
    }

    /// Bytes of the head.
    fn head_bytes(&self) -> usize {
        let padded = self.parts().0;
        let last = padded.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        padded.len() - last.leading_zeros() as usize / 8
    }

    /// Everything that was parsed from the head.
    pub fn view(&self) -> RequestView<'_> {
        let (head, slots) = self.parts();
        RequestView::new(&head[..self.head_bytes()], slots, &self.parsed)
    }

    /// The same with zeros behind the head: for all but the head itself.
    fn padded_view(&self) -> RequestView<'_> {
        let (head, slots) = self.parts();
        RequestView::new(head, slots, &self.parsed)
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.parsed.method
    }

    /// HTTP/1.0, HTTP/1.1 or HTTP/2.
    pub fn version(&self) -> Version {
        self.parsed.version
    }

    /// The path, percent-encoded as it came.
    pub fn path(&self) -> &str {
        self.padded_view().path()
    }

    /// What follows the `?`, percent-encoded as it came.
    pub fn query_string(&self) -> Option<&str> {
        self.padded_view().query()
    }

    /// The value of the first field of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.padded_view().field(name)
    }

    /// All fields in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.padded_view().fields()
    }

    /// The body's length, if the head says it; `Some(0)` when there is no body.
    pub fn content_length(&self) -> Option<u64> {
        match self.parsed.framing {
            Framing::None => Some(0),
            Framing::Length(bytes) => Some(bytes),
            Framing::Chunked => None,
        }
    }

    /// The peer's address. A client of a Unix socket has none: for that it is 127.0.0.1 with port 0, as trusted and as
    /// limited as others of this host.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] when the connection is no more.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.handle.peer_addr()
    }

    /// The address of the client: whom the peer asks for, if that is one of
    /// [`Config::forwarded_from`](crate::Config::forwarded_from) and names somebody, else the peer.
    ///
    /// ```
    /// use plimsoll_http::{Config, Error, Request, Response};
    ///
    /// async fn whoami(req: Request) -> Result<Response, Error> {
    ///     Ok(Response::text(req.client_ip()?.to_string()))
    /// }
    /// let config = Config { forwarded_from: vec!["10.0.0.0/8".parse()?, "::1".parse()?], ..Config::default() };
    /// # let _ = (whoami, config); Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`peer_addr`](Self::peer_addr).
    pub fn client_ip(&self) -> Result<IpAddr, Error> {
        let peer = self.peer_addr()?.ip();
        let trusted = &self.handle.config().forwarded_from;
        Ok(forwarded::client(&self.view(), peer, trusted).unwrap_or(peer))
    }

    /// The next part of the body, `None` at its end: what has come of it, in a piece, however the client cut it into
    /// chunks. It is received when it is asked for; a peer that waits for `100 Continue` gets it now.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Peer`] for a body that breaks the protocol or is cut short, [`Error::TimedOut`] when nothing comes for
    /// too long, [`Error::Disconnected`] when the client went away, [`Error::OverBudget`] when there is no room for it.
    pub async fn chunk(&mut self) -> Result<Option<Lease>, Error> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The same, for who polls.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        let polled = self.handle.poll_chunk(cx);
        if let (Some(rare), Poll::Ready(Ok(Some(chunk)))) = (&mut self.rare, &polled) {
            let left = &mut rare.body_bytes_left;
            match left.checked_sub(chunk.len() as u64) {
                Some(less) => *left = less,
                None => return Poll::Ready(Err(Error::BodyTooLarge { bytes_max: *left as usize })),
            }
        }
        polled
    }

    /// Lets the handler read no more than so many bytes of the body: what is beyond is an [`Error::BodyTooLarge`]. A
    /// limit that was set before holds, too.
    pub fn limit_body(&mut self, bytes_max: u64) {
        let left = &mut self.rare_mut().body_bytes_left;
        *left = bytes_max.min(*left);
    }

    /// So many bytes of the body may still be read.
    pub(crate) fn body_bytes_left(&self) -> u64 {
        self.rare.as_ref().map_or(u64::MAX, |rare| rare.body_bytes_left)
    }

    #[cold]
    fn rare_mut(&mut self) -> &mut Rare {
        let none = || Box::new(Rare { interims: 0, body_bytes_left: u64::MAX, extensions: Extensions::new() });
        self.rare.get_or_insert_with(none)
    }

    /// What layers have left for the handler, by type.
    ///
    /// ```
    /// use plimsoll_http::{Request, Response};
    ///
    /// #[derive(Clone)]
    /// struct User(String);
    ///
    /// async fn hello(req: Request) -> Option<String> {
    ///     req.extensions().get::<User>().map(|user| format!("hello {}\n", user.0))
    /// }
    /// ```
    pub fn extensions(&self) -> &Extensions {
        self.rare.as_ref().map_or(&*NO_EXTENSIONS, |rare| &rare.extensions)
    }

    /// To leave something for the handler, on the heap of the program.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.rare_mut().extensions
    }

    /// Has a callback called with the head of the answer right before it is encoded, whole or streamed: once, the last
    /// that was given first. It is not called when there is no answer of the handler's: its future was dropped, or it
    /// has panicked. Informational responses do not count.
    ///
    /// ```
    /// use plimsoll_http::layer::{Endpoint, Layer};
    /// use plimsoll_http::{Request, Response};
    ///
    /// #[derive(Clone)]
    /// struct NoSniff;
    ///
    /// impl Layer for NoSniff {
    ///     async fn call(&self, req: Request, next: &impl Endpoint) -> Response {
    ///         req.on_head(|head| {
    ///             if let Err(error) = head.add_header("x-content-type-options", "nosniff") {
    ///                 eprintln!("left out: {error}");
    ///             }
    ///         });
    ///         next.call(req).await
    ///     }
    /// }
    /// ```
    pub fn on_head(&self, callback: impl FnOnce(&mut ResponseHead<'_>) + 'static) {
        self.handle.on_head(Box::new(callback));
    }

    /// The fields that came after the body, once; `None` where there were none. Ask when [`chunk`](Self::chunk) has
    /// said `None`, or the body was collected: before that they may not be there yet. They are at most
    /// [`Limits::trailer_bytes`](crate::Http1Limits::trailer_bytes) long.
    pub fn trailers(&mut self) -> Option<Trailers> {
        self.handle.take_trailers().map(Trailers::new)
    }

    /// The paths of the server's router.
    #[cfg(feature = "router")]
    pub(crate) fn routes(&self) -> Option<&dyn Paths> {
        self.handle.port().paths()
    }

    /// Says that what follows must be finished even if the client goes away, for as long as the returned value lives.
    /// Else a handler's future is dropped at its next await when its client goes away.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    ///
    /// async fn pay(mut req: Request) -> Result<Response, Error> {
    ///     let order = req.collect().await?;
    ///     let finish = req.must_finish();
    ///     // ... charge the card, then write the order down: both or none ...
    ///     drop(finish);
    ///     Ok(Response::text(format!("{} bytes", order.len())))
    /// }
    /// ```
    pub fn must_finish(&self) -> MustFinish {
        self.handle.begin_must_finish();
        MustFinish(self.handle.clone())
    }

    /// Answers with a WebSocket (RFC 6455). After the returned response has left, `run` gets the connection, in a task
    /// of its own; the handler is over then. What is not a handshake becomes a 426 or a 400, a page of another site a
    /// 403.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, WebSocketConfig};
    ///
    /// async fn echo(req: Request) -> Result<Response, Error> {
    ///     req.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
    ///         while let Ok(Some(message)) = socket.recv().await {
    ///             if socket.send(message).await.is_err() {
    ///                 break;
    ///             }
    ///         }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Peer`] for what is not a handshake, [`Error::OriginRefused`], [`Error::Disconnected`] when the request
    /// was answered or its peer went away, [`Error::OverBudget`] when there is no room for the WebSocket.
    pub fn upgrade_websocket<F>(
        &self,
        config: &WebSocketConfig,
        run: impl FnOnce(WebSocket) -> F + 'static,
    ) -> Result<Response, Error>
    where
        F: Future<Output = ()> + 'static,
    {
        let worker = WorkerState::of(&self.handle)?;
        self.open_websocket(websocket::accept_task((worker, &worker.websockets), &self.view(), config, run)?)
    }

    /// As [`upgrade_websocket`](Self::upgrade_websocket), without a task: `handler` is called with each message. A
    /// connection that waits costs its entry and [`WEBSOCKET_PARKED_BYTES`](crate::WEBSOCKET_PARKED_BYTES).
    ///
    /// ```
    /// use plimsoll_http::{Error, Message, Request, Response, WebSocketConfig, WebSocketRef};
    ///
    /// async fn echo(req: Request) -> Result<Response, Error> {
    ///     let config = WebSocketConfig::default();
    ///     req.serve_websocket(&config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`upgrade_websocket`](Self::upgrade_websocket); [`Error::OverBudget`] also when there is no room for the
    /// handler.
    pub fn serve_websocket<H: WebSocketHandler>(
        &self,
        config: &WebSocketConfig,
        handler: H,
    ) -> Result<Response, Error> {
        let worker = WorkerState::of(&self.handle)?;
        self.open_websocket(websocket::accept_handler((worker, &worker.websockets), &self.view(), config, handler)?)
    }

    /// Changes to another protocol (RFC 9110 7.8): with 101, if the client offered to speak `protocol`, such as
    /// `chat/2`. After the returned response has left, `run` gets the connection, in a task of its own; the handler is
    /// over then. Fields can be added to the response; another response instead of it means that nothing is changed.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    ///
    /// async fn echo(req: Request) -> Result<Response, Error> {
    ///     req.upgrade("echo/1", |mut peer| async move {
    ///         while let Ok(Some(lease)) = peer.recv().await {
    ///             if peer.send_all(lease).await.is_err() {
    ///                 break;
    ///             }
    ///         }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::UpgradeRequired`] (426 with `Upgrade`) when it was not offered, which it never is in HTTP/1.0 and
    /// HTTP/2; [`Error::Misuse`] while the request's body was not read to its end; [`Error::Disconnected`] when the
    /// request was answered or its peer went away.
    pub fn upgrade<F>(
        &self,
        protocol: &'static str,
        run: impl FnOnce(Upgraded) -> F + 'static,
    ) -> Result<Response, Error>
    where
        F: Future<Output = ()> + 'static,
    {
        let response = upgrade::to(&self.view(), protocol)?;
        self.set_upgrade(upgrade::task(run))?;
        Ok(response)
    }

    /// Answers a CONNECT with 200, after which the connection is a tunnel (RFC 9110 9.3.6). `run` gets it then, in a
    /// task of its own. Where the client wants to go, [`view().host()`](crate::RequestRef::host) says.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    /// use plimsoll_runtime::{io, net::TcpStream};
    ///
    /// async fn proxy(req: Request) -> Result<Response, Error> {
    ///     // To one address alone: a proxy to everywhere is everybody's.
    ///     let Some("db.internal:5432") = req.view().host() else {
    ///         return Ok(Response::new(StatusCode::FORBIDDEN));
    ///     };
    ///     let upstream = TcpStream::connect(([10, 0, 0, 7], 5432).into()).await?;
    ///     req.tunnel(|client| async move {
    ///         let (client, _share) = client.into_parts();
    ///         if let Err(error) = io::relay(client, upstream).await {
    ///             eprintln!("the tunnel broke: {error}");
    ///         }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for another method, [`Error::Unsupported`] in HTTP/2, where
    /// [`accept_tunnel`](Self::accept_tunnel) gives the stream; [`Error::Disconnected`] as with
    /// [`upgrade`](Self::upgrade).
    pub fn tunnel<F>(&self, run: impl FnOnce(Upgraded) -> F + 'static) -> Result<Response, Error>
    where
        F: Future<Output = ()> + 'static,
    {
        let response = upgrade::tunnel(&self.view())?;
        self.set_upgrade(upgrade::task(run))?;
        Ok(response)
    }

    /// Sends an informational response (RFC 9110 15.2) before the answer: a status from 100 to 199 with fields and no
    /// body. With `103 Early Hints` (RFC 8297) a client begins to load what the answer will name while the handler is
    /// still at work. The answer repeats what matters: a client may ignore it, and anybody on the way may drop it. `100
    /// Continue`, which [`chunk`](Self::chunk) sends by itself, can be sent early so.
    ///
    /// It leaves in order: behind the answers to requests before this one. It waits while more than the configured
    /// output waits for the socket, and for memory. A client of HTTP/1.0 does not know these responses and is not sent
    /// any: the call does nothing then, and says `Ok`.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    ///
    /// async fn page(mut req: Request) -> Result<Response, Error> {
    ///     let style = "</style.css>; rel=preload; as=style";
    ///     req.inform(Response::new(StatusCode::EARLY_HINTS).header("link", style)).await?;
    ///     // ... ask the database ...
    ///     Ok(Response::text("<link rel=stylesheet href=/style.css>").header("link", style))
    /// }
    /// ```
    ///
    /// Cancel safe: dropped before it is ready, it has sent nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for another status, for 101 ([`upgrade`](Self::upgrade) sends that), for a body, for a field
    /// that is not allowed ([`Response::try_header`] says why), for more than 15 KiB of fields, for more responses than
    /// [`Config::interim_responses_max`](crate::Config::interim_responses_max), and when the answer was begun; nothing
    /// is sent then, and the answer can follow. [`Error::Disconnected`] when the client went away.
    pub async fn inform(&mut self, response: Response) -> Result<(), Error> {
        interim::check(&response)?;
        if self.rare_mut().interims >= self.handle.config().interim_responses_max {
            return Err(Error::Misuse(Misuse::TooManyInterims));
        }
        poll_fn(|cx| self.handle.poll_inform(cx, &response)).await?;
        self.rare_mut().interims += 1;
        Ok(())
    }

    /// Begins an answer whose body is streamed. `length` is its length in bytes where that is known; else it goes out
    /// in chunks. The request's body can still be read meanwhile. The handler returns what [`BodyWriter::finish`]
    /// gives.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    ///
    /// async fn echo(mut req: Request) -> Result<Response, Error> {
    ///     let mut out = req.respond(Response::new(StatusCode::OK), req.content_length())?;
    ///     while let Some(chunk) = req.chunk().await? {
    ///         out.write(chunk).await?;
    ///     }
    ///     out.finish().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] when an answer was begun before, or has a body of its own; [`Error::Disconnected`],
    /// [`Error::OverBudget`].
    pub fn respond(&mut self, response: Response, length: Option<u64>) -> Result<BodyWriter, Error> {
        self.handle.begin(response, length)?;
        Ok(BodyWriter::new(self.handle.clone()))
    }
}

/// As long as this lives, a handler is not dropped when its client goes away or its time is up, and the server's stop
/// waits for it (up to [`Config::drain_timeout`](crate::Config::drain_timeout)). See [`Request::must_finish`].
pub struct MustFinish(ExchangeHandle);

impl Drop for MustFinish {
    fn drop(&mut self) {
        self.0.end_must_finish();
    }
}

impl fmt::Debug for MustFinish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MustFinish")
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", self.method()).field("path", &self.path()).finish()
    }
}
