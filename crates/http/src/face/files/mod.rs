//! Files as answers: those of a directory, or one.
//!
//! ```text
//!  path of the request --> path: decoded, checked --> open: opened without waiting, and only a file is taken
//!                                                       |
//!                          conditions: 304, 412 <-- validators --> range: all, a part, 416
//!                                                       |
//!                                send: one buffer at a time, each waits for memory and for the client
//! ```

mod conditions;
mod content_type;
mod open;
mod path;
mod range;
mod send;

use ::core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{Method, StatusCode};

use self::open::{Found, Refusal};
use crate::exchange::failure::Failure;
use crate::face::serve::Handler;
use crate::{Request, Response};

/// What a path that names a directory stands for.
const INDEX: &str = "/index.html";
/// The parameter that has the path below a directory, in routes of [`Router::files`](crate::Router::files).
#[cfg(feature = "router")]
pub(crate) const PARAM: &str = "file";

/// The files of a directory, as a handler: for [`Router::files`](crate::Router::files), for
/// [`Router::fallback`](crate::Router::fallback), or alone.
///
/// ```
/// use plimsoll_http::{Request, Router, ServeDir, ServeFile};
///
/// let routes = Router::new()
///     .get("/api/health", async |_req: Request| "ok\n")
///     .files("/assets", "public/assets")
///     .get("/favicon.ico", ServeFile::new("public/favicon.ico"))
///     // All other paths: a file of `public`, or the page that finds its way by itself.
///     .fallback(ServeDir::new("public").fallback(ServeFile::new("public/index.html")));
/// assert!(routes.check().is_ok());
/// ```
///
/// | request | answer |
/// |---|---|
/// | `GET`, `HEAD` of a file | 200 with `Content-Type` by the name's ending, `ETag`, `Last-Modified`, `Accept-Ranges` |
/// | of a directory | its `index.html`; 307 to the path with a slash, where that is missing |
/// | with `If-None-Match`, `If-Modified-Since` that say that the client has it | 304 |
/// | with `If-Match`, `If-Unmodified-Since` that do not hold | 412 |
/// | `GET` with a `Range` of bytes, and an `If-Range` that holds or none | 206; 416 where it begins behind the end. Several ranges at once are not served: such a request gets all of the file |
/// | of what is not there, is no file, or may not be read | 404, or the [`fallback`](Self::fallback) |
/// | another method | 405 with `Allow` |
///
/// Those are the rules of RFC 9110 13 and 14, on HTTP/1.1 and HTTP/2. An `ETag` is made of the time of the last
/// modification and the length; it is weak for two seconds after a modification, as another one could have the same.
///
/// **Which files.** The path is decoded once. One that has a NUL, an encoded slash, an empty segment, or a segment that
/// begins with a dot, is not found: so nothing leaves the directory by `..`, and files such as `.git` are hidden. To
/// serve `.well-known`, add its directory with [`Router::files`](crate::Router::files). Symbolic links are followed,
/// also out of the directory: let nobody write to it whom you do not trust. A FIFO or a device is opened without
/// waiting for it, and not served.
///
/// **Memory.** A file is read in buffers of up to 64 KiB, one at a time, by the ring or else on the threads for
/// blocking calls. Each waits for memory, up to [`Config::memory_timeout`](crate::Config::memory_timeout), and until
/// the client has taken what is before it. Without memory for the first one the answer is 503 with `Retry-After`. A
/// file that shrinks while it is sent cuts its answer off: the connection is closed, or in HTTP/2 the stream reset.
/// What it grows by is not sent.
///
/// In the simulation the files are those of the world: `World::place_file`.
#[derive(Clone)]
pub struct ServeDir {
    dir: Arc<Path>,
    at: At,
    fallback: Option<ServeFile>,
}

/// What of a request's path is below the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// All of it.
    Root,
    /// What the parameter [`PARAM`] of its route stands for; without one, the directory itself is meant.
    #[cfg(feature = "router")]
    Param,
}

impl ServeDir {
    /// The files below a directory. It need not be there yet. A relative path begins where the process was started, or
    /// goes later.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into().into(), at: At::Root, fallback: None }
    }

    /// What is answered, with 200, instead of a 404: the page of a program that finds its way by itself.
    #[must_use]
    pub fn fallback(mut self, file: ServeFile) -> Self {
        self.fallback = Some(file);
        self
    }

    /// For routes that have the path in a parameter.
    #[cfg(feature = "router")]
    pub(crate) fn by_param(mut self) -> Self {
        self.at = At::Param;
        self
    }

    async fn answer(&self, request: Request) -> Response {
        if !is_read(&request) {
            return method_not_allowed();
        }
        let found = match self.at {
            At::Root => self.find(&request, request.path().strip_prefix('/')).await,
            #[cfg(feature = "router")]
            At::Param => self.find(&request, Some(request.param(PARAM).unwrap_or_default())).await,
        };
        match (found, &self.fallback) {
            (Ok(Found::File(file)), _) => send::answer(request, file).await,
            (Ok(Found::Directory), _) => redirect_to_slash(&request),
            (Err(Refusal::NotFound), Some(fallback)) => fallback.answer(request).await,
            (Err(refusal), _) => refusal.into(),
        }
    }

    async fn find(&self, request: &Request, below: Option<&str>) -> Result<Found, Refusal> {
        let asked = below.and_then(path::Asked::of).ok_or(Refusal::NotFound)?;
        let mut path = open::path(request.handle(), &self.dir, asked.decoded(), INDEX.len()).await?;
        let is_directory = match open::open(request.handle(), &path).await? {
            Found::File(file) if !asked.wants_directory() => return Ok(Found::File(file)),
            Found::File(_) => return Err(Refusal::NotFound),
            Found::Directory => request.path().ends_with('/'),
        };
        if !is_directory {
            return Ok(Found::Directory);
        }
        path.extend(INDEX.as_bytes());
        match open::open(request.handle(), &path).await? {
            Found::Directory => Err(Refusal::NotFound),
            file => Ok(file),
        }
    }
}

impl fmt::Debug for ServeDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServeDir").field(&self.dir).finish()
    }
}

impl<P: Into<PathBuf>> From<P> for ServeDir {
    fn from(dir: P) -> Self {
        Self::new(dir)
    }
}

impl<S> Handler<S, (Request,)> for ServeDir {
    fn call(&self, request: Request, _state: &S) -> impl Future<Output: crate::IntoResponse> {
        self.answer(request)
    }
}

/// One file, as a handler, whatever the path of the request: see [`ServeDir`] for what is answered.
///
/// ```
/// use plimsoll_http::{Router, ServeFile};
///
/// let routes = Router::new().get("/robots.txt", ServeFile::new("public/robots.txt"));
/// assert!(routes.check().is_ok());
/// ```
#[derive(Clone)]
pub struct ServeFile {
    path: Arc<Path>,
}

impl ServeFile {
    /// The file at a path. It need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into().into() }
    }

    async fn answer(&self, request: Request) -> Response {
        if !is_read(&request) {
            return method_not_allowed();
        }
        match self.find(&request).await {
            Ok(Found::File(file)) => send::answer(request, file).await,
            Ok(Found::Directory) => Refusal::NotFound.into(),
            Err(refusal) => refusal.into(),
        }
    }

    async fn find(&self, request: &Request) -> Result<Found, Refusal> {
        let path = open::path(request.handle(), &self.path, ::core::iter::empty(), 0).await?;
        open::open(request.handle(), &path).await
    }
}

impl fmt::Debug for ServeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServeFile").field(&self.path).finish()
    }
}

impl<S> Handler<S, (Request,)> for ServeFile {
    fn call(&self, request: Request, _state: &S) -> impl Future<Output: crate::IntoResponse> {
        self.answer(request)
    }
}

fn is_read(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

fn method_not_allowed() -> Response {
    Response::from(Failure::from(StatusCode::METHOD_NOT_ALLOWED)).header("Allow", "GET, HEAD")
}

/// A page's links are relative to its directory, so its path ends with a slash. The location is relative, too: it is
/// right whatever a proxy has cut off the path, and cannot name another host.
fn redirect_to_slash(request: &Request) -> Response {
    let last = request.path().rsplit('/').next().unwrap_or_default();
    let query = request.query_string().map(|query| format!("?{query}")).unwrap_or_default();
    Response::new(StatusCode::TEMPORARY_REDIRECT).header("Location", format!("./{last}/{query}"))
}
