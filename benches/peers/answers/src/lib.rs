//! What every peer answers, so that all do the same work: the routes, the fixed bodies, and the items of `/json` with
//! their serializer, which are those of the `arena` example, by path.
//!
//! | request | answer |
//! |---|---|
//! | `GET /pipeline` | `ok` |
//! | `GET /json/{count}?m=M` | the first `count` items, serialised anew |
//! | `POST /upload` | how many bytes the body had |
//! | `GET /blob/{bytes}` | that many bytes, from one shared buffer |
//! | anything else | 404 |
#![forbid(unsafe_code)]

pub mod floor;
pub mod h1;
#[path = "../../../../examples/arena/items.rs"]
mod items;

/// The body of `GET /pipeline`.
pub const OK: &str = "ok";
/// The body of a 404.
pub const NOT_FOUND: &str = "not found\n";
/// The type of the short answers.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The type of `/json`.
pub const JSON: &str = "application/json";
/// The type of `/blob`.
pub const BINARY: &str = "application/octet-stream";

/// What every blob is made of.
pub static BLOB: [u8; 64 * 1024] = [b'p'; 64 * 1024];

/// The longest blob: 1 TiB.
const BLOB_BYTES_MAX: u64 = 1 << 40;

/// Reads the items, so that no request has to.
pub fn load() {
    items::load();
}

/// The JSON text of the first `count` items, with totals multiplied by `factor`. `None` when there are not as many.
pub fn json(count: usize, factor: i64) -> Option<Vec<u8>> {
    items::json(count, factor)
}

/// The factor in the query of `/json`: that of its `m`, or 1.
pub fn factor(query: Option<&str>) -> i64 {
    let value = query.and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("m=")));
    value.and_then(|value| value.parse().ok()).unwrap_or(1)
}

/// A known path, for the peers that have no router of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `GET /pipeline`
    Pipeline,
    /// `GET /json/{count}`
    Json {
        /// At most as many as there are items.
        count: usize,
    },
    /// `POST /upload`
    Upload,
    /// `GET /blob/{bytes}`
    Blob {
        /// At most 1 TiB.
        bytes: u64,
    },
}

impl Route {
    /// The route of a method and a path without its query.
    pub fn of(method: &str, path: &str) -> Option<Route> {
        match (method, path) {
            ("GET", "/pipeline") => Some(Route::Pipeline),
            ("POST", "/upload") => Some(Route::Upload),
            ("GET", _) => {
                let (name, number) = path.strip_prefix('/')?.split_once('/')?;
                let number: u64 = number.parse().ok()?;
                match name {
                    "json" if number <= items::len() as u64 => Some(Route::Json { count: number as usize }),
                    "blob" if number <= BLOB_BYTES_MAX => Some(Route::Blob { bytes: number }),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The whole answer to a `GET` of a target, head and body, as one piece of bytes: what a floor sends.
pub fn fixed(target: &str) -> Option<Vec<u8>> {
    let request = format!("GET {target} HTTP/1.1\r\n\r\n");
    let mut answer = Vec::new();
    let (_, next) = h1::Session::new().feed(request.as_bytes(), &mut answer);
    (next == h1::Next::Read && answer.starts_with(b"HTTP/1.1 200")).then_some(answer)
}

/// The first word of the command line, or a default for trying by hand.
pub fn address() -> String {
    std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".into())
}

#[cfg(test)]
mod tests;
