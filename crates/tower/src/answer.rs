//! An exchange: the service is called, and what it answers is written.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame};
use plimsoll_codec::h1::{check_field, is_trailer};
use plimsoll_http::{BodyWriter, Error, IntoResponse, Request, Response};
use plimsoll_runtime::{Kind, Sleep, sleep};
use tower_service::Service;

use crate::body::{Body, Pump};
use crate::{BoxError, Options, grpc, head};

/// Answers a request by a service.
pub(crate) async fn answer<S, B>(request: Request, mut service: S, options: Options) -> Response
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody,
    B::Error: Into<BoxError>,
{
    // What the service allocates is not the pool's; it counts from here to the end of its answer.
    let _footprint = match plimsoll_runtime::pool().charge(Kind::Tasks, options.footprint_bytes) {
        Ok(charge) => charge,
        Err(over) => return Error::OverBudget(over).into_response(),
    };
    let (mut pump, body) = Pump::new(request);
    let asked = match asked(&pump.request, body, options) {
        Ok(asked) => asked,
        Err(error) => {
            tracing::debug!(%error, "a request that the types of the `http` crate cannot say");
            return Response::new(StatusCode::BAD_REQUEST);
        }
    };
    if let Some(refusal) = grpc::refusal(&asked) {
        return refusal;
    }
    let mut deadline = pin!(grpc::timeout(&asked).map(sleep));
    let mut called = pin!(async {
        poll_fn(|cx| service.poll_ready(cx)).await?;
        service.call(asked).await
    });
    let answered = poll_fn(|cx| match pump.poll_alongside(called.as_mut(), cx) {
        Poll::Ready(answered) => Poll::Ready(Some(answered)),
        Poll::Pending => poll_over(deadline.as_mut(), cx),
    });
    let answered = match answered.await {
        None => return grpc::deadline_exceeded(),
        Some(Err(error)) => {
            let error: BoxError = error.into();
            tracing::error!(%error, "a service failed: the client is told 500");
            return Response::new(StatusCode::INTERNAL_SERVER_ERROR);
        }
        Some(Ok(answered)) => answered,
    };
    let (parts, body) = answered.into_parts();
    #[cfg(feature = "axum")]
    if let Some(upgraded) = crate::ws::upgrade(&pump.request, &parts) {
        return upgraded;
    }
    let body = pin!(body);
    write(&mut pump, &parts, body, deadline).await.unwrap_or_else(IntoResponse::into_response)
}

/// The request as a service is asked.
fn asked(request: &Request, body: Body, options: Options) -> Result<http::Request<Body>, http::Error> {
    let mut asked = request.to_http(body)?;
    if options.peer_address
        && let Ok(peer) = request.peer_addr()
    {
        #[cfg(feature = "axum-connect-info")]
        asked.extensions_mut().insert(axum::extract::ConnectInfo(peer));
        asked.extensions_mut().insert(crate::PeerAddress(peer));
    }
    #[cfg(feature = "axum")]
    crate::ws::note_upgradable(request, &mut asked);
    Ok(asked)
}

/// Ready, with nothing, when the time of a call is over.
fn poll_over<T>(deadline: Pin<&mut Option<Sleep>>, cx: &mut Context<'_>) -> Poll<Option<T>> {
    match deadline.as_pin_mut() {
        Some(deadline) => deadline.poll(cx).map(|()| None),
        None => Poll::Pending,
    }
}

/// Writes an answer: in one piece if its body is there at once, else as its frames come.
async fn write<B: HttpBody>(
    pump: &mut Pump,
    parts: &http::response::Parts,
    mut body: Pin<&mut B>,
    mut deadline: Pin<&mut Option<Sleep>>,
) -> Result<Response, Error>
where
    B::Error: Into<BoxError>,
{
    let (response, announced) = head::response(parts)?;
    if parts.status.is_informational() {
        tracing::error!(status = %parts.status, "a service answered with an interim status: the client is told 500");
        return Ok(Response::new(StatusCode::INTERNAL_SERVER_ERROR));
    }
    if matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT) {
        return Ok(response);
    }
    let length = body.size_hint().exact();
    if pump.request.method() == http::Method::HEAD || parts.status == StatusCode::NOT_MODIFIED {
        // They say how long the body would be, if the service does: that there is none here says nothing of it.
        let length = if body.is_end_stream() { announced } else { length.or(announced) };
        return pump.request.respond(response, length)?.finish().await;
    }
    if body.is_end_stream() {
        return Ok(response);
    }
    // Looked at once: a head must not wait for a body that comes later.
    let first = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await {
        Poll::Ready(Some(Ok(frame))) if frame.is_data() && body.is_end_stream() => {
            return Ok(response.body(frame.into_data().map_or_else(|_| Default::default(), to_bytes)));
        }
        Poll::Ready(None) => return Ok(response),
        Poll::Ready(Some(Err(error))) => {
            let error: BoxError = error.into();
            tracing::error!(%error, "a body failed before it began: the client is told 500");
            return Ok(Response::new(StatusCode::INTERNAL_SERVER_ERROR));
        }
        Poll::Ready(Some(Ok(frame))) => Some(frame),
        Poll::Pending => None,
    };
    let mut writer = pump.request.respond(response, length.or(announced))?;
    let ended = {
        let mut streamed = pin!(stream(&mut writer, first, body));
        let ended = poll_fn(|cx| match pump.poll_alongside(streamed.as_mut(), cx) {
            Poll::Ready(end) => Poll::Ready(Some(end)),
            Poll::Pending => poll_over(deadline.as_mut(), cx),
        });
        ended.await
    };
    match ended {
        None => writer.finish_with_trailers(&grpc::DEADLINE_EXCEEDED).await,
        Some(End::Failed) => Ok(writer.abort()),
        Some(End::Gone(error)) => Err(error),
        Some(End::Whole(None)) => writer.finish().await,
        Some(End::Whole(Some(trailers))) => writer.finish_with_trailers(&fields(&trailers)).await,
    }
}

/// How the frames of a body have ended.
enum End {
    Whole(Option<HeaderMap>),
    /// The body's own error: cut short, so that nobody takes what came of it for the whole.
    Failed,
    /// The client went away, or there was no room.
    Gone(Error),
}

/// Writes the frames of a body as they come.
async fn stream<B: HttpBody>(writer: &mut BodyWriter, first: Option<Frame<B::Data>>, mut body: Pin<&mut B>) -> End
where
    B::Error: Into<BoxError>,
{
    let mut next = first.map(Ok);
    loop {
        let frame = match next.take() {
            Some(frame) => Some(frame),
            None => poll_fn(|cx| body.as_mut().poll_frame(cx)).await,
        };
        match frame {
            None => return End::Whole(None),
            Some(Err(error)) => {
                let error: BoxError = error.into();
                tracing::warn!(%error, "a body failed: its answer is cut short");
                return End::Failed;
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    if let Err(error) = writer.write_bytes(to_bytes(data)).await {
                        return End::Gone(error);
                    }
                }
                Err(frame) => return End::Whole(frame.into_trailers().ok()),
            },
        }
    }
}

fn to_bytes(mut data: impl Buf) -> bytes::Bytes {
    data.copy_to_bytes(data.remaining())
}

/// What may stand behind a body: the rest is left out.
fn fields(trailers: &HeaderMap) -> Vec<(&str, &[u8])> {
    let fields = trailers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    fields.filter(|(name, value)| is_trailer(name.as_bytes()) && check_field(name.as_bytes(), value).is_ok()).collect()
}
