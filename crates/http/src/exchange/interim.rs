//! Informational responses (RFC 9110 15.2), which a handler sends before its answer: what they may be.

use plimsoll_codec::h1::{BodyLength, ResponseHead};

use crate::Error;
use crate::exchange::response::{Kind, Response};

/// Bytes of fields of an informational response at most, in HTTP/1.1 as in HTTP/2, whose compression has room for no
/// more.
pub(crate) const FIELDS_BYTES_MAX: usize = 15 * 1_024;

/// Whether a response is one that may go before the answer.
pub(crate) fn check(response: &Response) -> Result<(), Error> {
    if response.kind() == Kind::Streamed || response.length() != BodyLength::Empty {
        return Err(Error::Misuse("an informational response has no body"));
    }
    if ResponseHead::interim(response.status()).is_err() {
        // What `Response::header` refused has become a 500.
        return Err(Error::Misuse(
            "an informational response has valid fields and a status from 100 to 199, but not 101",
        ));
    }
    if response.fields().as_bytes().len() > FIELDS_BYTES_MAX {
        return Err(Error::Misuse("the fields of an informational response are too long: there is room for 15 KiB"));
    }
    Ok(())
}

/// Why there cannot be one any more.
pub(crate) const TOO_LATE: &str = "an informational response goes before the answer, which was begun";
