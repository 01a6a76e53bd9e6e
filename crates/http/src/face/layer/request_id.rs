//! A name for each request, by which its lines in logs are found.

use ::core::cell::Cell;
use ::core::fmt;

use crate::face::layer::{Endpoint, Layer};
use crate::{Request, Response};

/// The field.
const NAME: &str = "x-request-id";
/// Longer ones of clients are not taken.
const GIVEN_BYTES_MAX: usize = 64;

const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];

thread_local! {
    /// How many this worker has given.
    static GIVEN: Cell<u64> = const { Cell::new(0) };
}

/// Gives each request an [`Id`], among its extensions and as `x-request-id` of its answer, streamed or not.
///
/// It is unique among the requests of this process, and nearly always among those of others: the second, the worker,
/// and a number.
///
/// ```
/// use plimsoll_http::layer::{Id, RequestId};
/// use plimsoll_http::{Request, Router};
///
/// async fn which(req: Request) -> Option<String> {
///     req.extensions().get::<Id>().map(|id| format!("you are {id}\n"))
/// }
/// let routes = Router::new().get("/", which).layer(RequestId::new());
/// # assert!(routes.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestId {
    from_client: bool,
}

impl RequestId {
    /// Gives each its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what the client or a proxy has given in `x-request-id`, if that is of at most 64 visible ASCII characters.
    /// They can give the same to many.
    #[must_use]
    pub fn from_client(mut self, taken: bool) -> Self {
        self.from_client = taken;
        self
    }

    fn given(&self, request: &Request) -> Option<Id> {
        let given = request.header(NAME).filter(|_| self.from_client)?;
        let is_fit = (1..=GIVEN_BYTES_MAX).contains(&given.len()) && given.iter().all(u8::is_ascii_graphic);
        is_fit.then(|| Id(String::from_utf8_lossy(given).into()))
    }
}

impl Layer for RequestId {
    async fn call(&self, mut request: Request, next: &impl Endpoint) -> Response {
        let id = self.given(&request).unwrap_or_else(Id::next);
        let told = id.clone();
        request.on_head(move |head| {
            if let Err(error) = head.add_header(NAME, &*told.0) {
                tracing::warn!(%error, id = %told, "an answer is without its id");
            }
        });
        request.extensions_mut().insert(id);
        next.call(request).await
    }
}

/// The name of a request: see [`RequestId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(std::sync::Arc<str>);

impl Id {
    fn next() -> Self {
        let number = GIVEN.get();
        GIVEN.set(number.wrapping_add(1));
        let (second, worker) = (plimsoll_runtime::unix_seconds(), plimsoll_runtime::worker_index());
        let mut text = String::with_capacity(8 + 1 + 4 + 1 + 8);
        for (part, digits) in [(second, 8), (worker as u64, 4), (number, 8)] {
            if !text.is_empty() {
                text.push('-');
            }
            // By hand, as the formatter takes a thousand instructions for it.
            text.extend((0..digits).rev().map(|at| HEX[(part >> (4 * at)) as usize % 16]));
        }
        Self(text.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
