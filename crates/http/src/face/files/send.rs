//! The answer with a file: its head, and its bytes one buffer after the other.

use http::{Method, StatusCode};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Lease, unix_seconds};

use super::conditions::Validators;
use super::open::{Opened, Refusal, WAITS_MAX};
use super::range::Range;
use crate::exchange::failure::Failure;
use crate::exchange::handle::ExchangeHandle;
use crate::{BodyWriter, Error, IntoResponse, Request, Response};

/// Bytes of one buffer at most. What is no longer is answered in one piece.
const BUFFER_BYTES_MAX: u64 = 64 * 1_024;

/// Answers a request for an open file.
pub(super) async fn answer(mut request: Request, opened: Opened) -> Response {
    let len = opened.metadata.len;
    let validators = Validators::of(&opened.metadata, unix_seconds());
    let view = request.view();
    let status = validators.judge(&view);
    let is_get = *request.method() == Method::GET;
    let range = if is_get && validators.fits_range(&view) { Range::of(&view, len) } else { Range::All };
    match (status, range) {
        (Some(StatusCode::NOT_MODIFIED), _) => validated(Response::new(StatusCode::NOT_MODIFIED), &validators),
        (Some(status), _) => Failure::from(status).into(),
        (None, Range::Unsatisfiable) => Response::from(Failure::from(StatusCode::RANGE_NOT_SATISFIABLE))
            .header("Content-Range", format!("bytes */{len}")),
        (None, Range::All) => {
            let head = head(StatusCode::OK, &opened, &validators);
            send(&mut request, head, &opened, Part { offset: 0, left: len }).await
        }
        (None, Range::Part(first, last)) => {
            let head = head(StatusCode::PARTIAL_CONTENT, &opened, &validators)
                .header("Content-Range", format!("bytes {first}-{last}/{len}"));
            send(&mut request, head, &opened, Part { offset: first, left: last - first + 1 }).await
        }
    }
}

fn validated(response: Response, validators: &Validators) -> Response {
    response.header("ETag", validators.etag()).header("Last-Modified", validators.last_modified())
}

fn head(status: StatusCode, opened: &Opened, validators: &Validators) -> Response {
    let head = Response::new(status).header("Content-Type", opened.content_type).header("Accept-Ranges", "bytes");
    validated(head, validators)
}

/// What is still to be read of a file.
struct Part {
    offset: u64,
    left: u64,
}

async fn send(request: &mut Request, head: Response, opened: &Opened, mut part: Part) -> Response {
    // Without memory for its fields it is another answer.
    if !head.status().is_success() {
        return head;
    }
    let bytes = part.left;
    if *request.method() == Method::HEAD {
        return match request.respond(head, Some(bytes)) {
            Ok(out) => out.finish().await.unwrap_or_else(|_gone| Response::streamed()),
            Err(error) => error.into_response(),
        };
    }
    if bytes == 0 {
        return head;
    }
    let first = match read(request.handle(), opened, &mut part, Priority::Body).await {
        Ok(Some(first)) => first,
        Ok(None) => return Failure::from(StatusCode::INTERNAL_SERVER_ERROR).into(),
        Err(error) => return Refusal::from(error).into(),
    };
    if part.left == 0 {
        return head.body(first);
    }
    match request.respond(head, Some(bytes)) {
        Ok(out) => stream(request.handle(), opened, (first, part), out).await,
        Err(error) => error.into_response(),
    }
}

/// Sends the first buffer and the others: no more than one is read before the client has taken what is before it.
async fn stream(
    handle: &ExchangeHandle,
    opened: &Opened,
    (mut lease, mut part): (Lease, Part),
    mut out: BodyWriter,
) -> Response {
    loop {
        if out.write(lease).await.is_err() {
            return out.abort();
        }
        if part.left == 0 {
            return out.finish().await.unwrap_or_else(|_gone| Response::streamed());
        }
        lease = match read(handle, opened, &mut part, Priority::Output).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return out.abort(),
            Err(error) => {
                tracing::warn!(%error, "an answer with a file is cut off");
                return out.abort();
            }
        };
    }
}

/// Reads the next buffer; `None` when the file has become shorter than it was.
async fn read(
    handle: &ExchangeHandle,
    opened: &Opened,
    part: &mut Part,
    want: Priority,
) -> Result<Option<Lease>, Error> {
    let bytes = part.left.min(BUFFER_BYTES_MAX) as usize;
    let mut waits = 0;
    loop {
        let lease = handle.await_buffer(bytes, want).await?;
        match opened.file.read_at(lease, part.offset).await {
            Ok((0, _)) => {
                tracing::warn!(missing_bytes = part.left, "a file has become shorter while it was sent");
                return Ok(None);
            }
            Ok((_, mut lease)) => {
                lease.truncate(bytes);
                part.offset += lease.len() as u64;
                part.left -= lease.len() as u64;
                return Ok(Some(lease));
            }
            // There was no room for the operation.
            Err(plimsoll_runtime::Error::OverBudget(_)) if waits < WAITS_MAX => waits += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
