//! The way back: a handler or a router of ours as a tower service, in other people's routers and under their layers.
//!
//! ```text
//!   http::Request<B> --> Callable::call --> Call ... head --> http::Response<AnswerBody>
//!                          | B, as CallBody  | in an `OnWorker`: what others may move         |
//!                          +-- the handler --+------------------------ its parts ------------+
//! ```

use core::convert::Infallible;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::{fmt, mem};

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::LengthLimitError;
use plimsoll_http::{Call, CallBody, CallPart, Callable, Config, Error, Misuse, Serve};
use plimsoll_runtime::{OnWorker, try_worker_index};
use tower_service::Service;

use crate::{BoxError, PeerAddress};

/// A handler or a router of Plimsoll as a tower service: to be nested in a router of axum, wrapped by layers, or called
/// in a test.
///
/// It is always ready, and its error cannot be: what a handler fails with is an answer. The handler stays on the worker
/// that polls the answer's future first; future and body may be moved by whoever wants them `Send`, and must be polled
/// there. Elsewhere the answer is a 500 whose text says so, and a body that has begun fails with [`Misuse::OffWorker`].
/// A future or a body that is dropped ends its handler. A handler that panics panics in the poll of whoever waits, as
/// any other service does.
///
/// What a handler finds is what it finds at a server, and the peer's address, if the request has a [`PeerAddress`]
/// among its extensions (or axum's `ConnectInfo`, with the feature `axum-connect-info`). Of a body that a layer around
/// it has limited, what is beyond is [`Error::BodyTooLarge`]. What is about the connection is not here: see
/// [`Callable`], which this is made of. A router that axum nests at `/inner` sees paths without that.
///
/// ```
/// use axum::{Router, body::Body, routing::get};
/// use http_body_util::BodyExt;
/// use plimsoll_tower::HandlerService;
/// use tower::ServiceExt;
///
/// async fn inner(req: plimsoll_http::Request) -> String {
///     format!("{} here\n", req.path())
/// }
///
/// let router = Router::new()
///     .route("/", get(async || "axum"))
///     .nest_service("/inner", HandlerService::new(inner)?);
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let request = http::Request::get("/inner/path").body(Body::empty()).expect("a request");
/// let answer = router.oneshot(request).await.expect("it cannot fail");
/// assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), "/path here\n");
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HandlerService(Callable);

impl HandlerService {
    /// Of a handler, or of a router.
    ///
    /// # Errors
    ///
    /// As [`Callable::new`].
    pub fn new<A>(service: impl Serve<A>) -> plimsoll_runtime::Result<Self> {
        Callable::new(service).map(Self)
    }

    /// Sets the limits that requests have, as [`Callable::config`].
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        Self(self.0.config(config))
    }
}

impl<B> Service<http::Request<B>> for HandlerService
where
    B: HttpBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering<B>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Answering<B> {
        Answering(Stage::Asked(self.0.clone(), Box::new(request)))
    }
}

/// The answer of a [`HandlerService`] that will come.
pub struct Answering<B>(Stage<B>);

enum Stage<B> {
    /// Not polled yet: it is not known where the handler will be.
    Asked(Callable, Box<http::Request<B>>),
    Called(OnWorker<Call>),
    Over,
}

impl<B> Future for Answering<B>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<http::Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = match mem::replace(&mut self.0, Stage::Over) {
            Stage::Asked(..) if try_worker_index().is_none() => return Poll::Ready(Ok(refused_elsewhere())),
            Stage::Called(call) if !call.is_here() => return Poll::Ready(Ok(refused_elsewhere())),
            Stage::Asked(callable, request) => {
                let mut call = begin(&callable, *request);
                // Most are ready at once, and are not made to be moved.
                if let Poll::Ready(head) = call.poll_head(cx) {
                    return Poll::Ready(Ok(answered(head, call)));
                }
                match OnWorker::new(call) {
                    Ok(call) => Stage::Called(call),
                    Err(error) => return Poll::Ready(Ok(refused(StatusCode::SERVICE_UNAVAILABLE, &error))),
                }
            }
            Stage::Called(mut call) => match call.with(|call| call.poll_head(cx)) {
                Poll::Ready(head) => return Poll::Ready(Ok(answered(head, call.into_inner()))),
                Poll::Pending => Stage::Called(call),
            },
            Stage::Over => Stage::Over,
        };
        self.0 = stage;
        Poll::Pending
    }
}

fn answered(head: http::response::Parts, call: Call) -> http::Response<AnswerBody> {
    http::Response::from_parts(head, AnswerBody::of(call))
}

/// Gives a request to the handler.
fn begin<B>(callable: &Callable, request: http::Request<B>) -> Call
where
    B: HttpBody + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let peer = peer(&head.extensions);
    callable.call(head, peer, Asked(Box::pin(body)))
}

fn peer(extensions: &http::Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "axum-connect-info")]
    if let Some(axum::extract::ConnectInfo(peer)) = extensions.get() {
        return Some(*peer);
    }
    extensions.get().map(|PeerAddress(peer)| *peer)
}

/// What is said where no handler can be.
fn refused_elsewhere() -> http::Response<AnswerBody> {
    refused(StatusCode::INTERNAL_SERVER_ERROR, &Error::Misuse(Misuse::OffWorker))
}

fn refused(status: StatusCode, error: &dyn core::error::Error) -> http::Response<AnswerBody> {
    tracing::error!(%error, "a handler could not be called");
    let text = Bytes::from(format!("{error}\n"));
    let mut response = http::Response::new(AnswerBody(Rest::Whole(text)));
    *response.status_mut() = status;
    response
}

impl<B> fmt::Debug for Answering<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

/// A request's body as a handler is given it.
struct Asked<B>(Pin<Box<B>>);

impl<B> CallBody for Asked<B>
where
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    fn poll_part(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<CallPart, Error>>> {
        Poll::Ready(match ready!(self.0.as_mut().poll_frame(cx)) {
            None => None,
            Some(Err(error)) => Some(Err(told(error.into()))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => Some(Ok(CallPart::Data(data.copy_to_bytes(data.remaining())))),
                Err(frame) => frame.into_trailers().ok().map(|trailers| Ok(CallPart::Trailers(trailers))),
            },
        })
    }

    fn length(&self) -> Option<u64> {
        if self.0.is_end_stream() { Some(0) } else { self.0.size_hint().exact() }
    }
}

/// What a handler is told of a body that failed: an error of ours as it is, from beneath whatever a layer has put
/// around it.
fn told(error: BoxError) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(ours) => return *ours,
        Err(error) => error,
    };
    let mut at: Option<&(dyn core::error::Error + 'static)> = Some(&*error);
    while let Some(cause) = at {
        match cause.downcast_ref() {
            Some(Error::BodyTooLarge { bytes_max }) => return Error::BodyTooLarge { bytes_max: *bytes_max },
            Some(Error::Peer(fault)) => return Error::Peer(*fault),
            Some(Error::Disconnected) => return Error::Disconnected,
            Some(Error::TimedOut) => return Error::TimedOut,
            _ => {}
        }
        if cause.is::<LengthLimitError>() {
            // How long it may be is the layer's own.
            return Error::BodyTooLarge { bytes_max: 0 };
        }
        at = cause.source();
    }
    Error::Runtime(plimsoll_runtime::Error::Service(error))
}

/// The body of a handler's answer. Its frames are asked for as they are taken, which is what lets the handler go on.
#[derive(Default)]
pub struct AnswerBody(Rest);

/// What is still to come.
#[derive(Default)]
enum Rest {
    #[default]
    Nothing,
    Whole(Bytes),
    Streamed {
        call: OnWorker<Call>,
        length: Option<u64>,
    },
    Failed(Error),
}

impl AnswerBody {
    /// What follows the head of a call.
    fn of(mut call: Call) -> Self {
        if let Some(bytes) = call.take_whole() {
            return Self(if bytes.is_empty() { Rest::Nothing } else { Rest::Whole(bytes) });
        }
        let length = call.length();
        let streamed = |call| Rest::Streamed { call, length };
        Self(OnWorker::new(call).map_or_else(|error| Rest::Failed(error.into()), streamed))
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match mem::take(&mut self.0) {
            Rest::Nothing => Poll::Ready(None),
            Rest::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Rest::Failed(error) => Poll::Ready(Some(Err(error))),
            Rest::Streamed { call, .. } if !call.is_here() => Poll::Ready(Some(Err(Error::Misuse(Misuse::OffWorker)))),
            Rest::Streamed { mut call, .. } => {
                let (polled, length, is_over) = call.with(|call| (call.poll_part(cx), call.length(), call.is_over()));
                if polled.is_pending() || !is_over {
                    self.0 = Rest::Streamed { call, length };
                }
                polled.map(|part| {
                    part.map(|part| {
                        part.map(|part| match part {
                            CallPart::Data(data) => Frame::data(data),
                            CallPart::Trailers(trailers) => Frame::trailers(trailers),
                        })
                    })
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Rest::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Rest::Nothing => SizeHint::with_exact(0),
            Rest::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Rest::Streamed { length, .. } => length.map_or_else(SizeHint::default, SizeHint::with_exact),
            Rest::Failed(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("length", &self.size_hint().exact()).finish_non_exhaustive()
    }
}
