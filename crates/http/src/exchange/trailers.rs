//! Fields that come after a body (RFC 9110 6.5).

use ::core::fmt;

use plimsoll_codec::h1::{self, Full, Sink};
use plimsoll_runtime::{Kind, Lease, Pool};

use crate::Error;

/// The trailers of a request: its fields that came after the body, each of them checked. Fields that must come before
/// it (those that frame, route or authenticate, or say how to read the body) make the request a bad one, so none of
/// these are here.
///
/// Whoever passed the request on may have dropped them, and nobody has looked at them when the handler began: do not
/// decide by them what the head should have said.
///
/// ```
/// use plimsoll_http::{Error, Request, Response};
///
/// async fn upload(mut req: Request) -> Result<Response, Error> {
///     let body = req.collect().await?;
///     let trailers = req.trailers();
///     let sum = trailers.as_ref().and_then(|trailers| trailers.get("content-sum"));
///     Ok(Response::text(format!("{} bytes, sum {:?}\n", body.len(), sum.map(<[u8]>::escape_ascii))))
/// }
/// ```
pub struct Trailers(Lease);

impl Trailers {
    /// Of a lease with field lines that were checked.
    pub(crate) fn new(section: Lease) -> Self {
        Self(section)
    }

    /// The value of the first field of this name, in any case of letters.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        h1::trailers(&self.0)
    }
}

impl fmt::Debug for Trailers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (name, value.escape_ascii().to_string()))).finish()
    }
}

/// Encodes the fields of an answer's trailers, each of them checked by itself.
pub(crate) fn encode(pool: &Pool, fields: &[(&str, &[u8])]) -> Result<Lease, Error> {
    let bytes = fields.iter().map(|(name, value)| h1::field_len(name, value)).sum();
    let mut block = Block(pool.try_acquire(bytes, Kind::Buffers)?);
    for (name, value) in fields {
        h1::put_field(&mut block, name, value)?;
    }
    Ok(block.0)
}

struct Block(Lease);

impl Sink for Block {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if self.0.extend(bytes) == bytes.len() { Ok(()) } else { Err(Full) }
    }
}
