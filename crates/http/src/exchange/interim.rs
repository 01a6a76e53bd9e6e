//! Informational responses (RFC 9110 15.2), which a handler sends before its answer: what they may be.

use plimsoll_codec::h1::{BodyLength, ResponseHead};
use plimsoll_runtime::OverBudget;

use crate::Error;
use crate::base::misuse::Misuse;
use crate::exchange::response::{Kind, Refusal, Response};

/// Bytes of fields of an informational response at most, in HTTP/1.1 as in HTTP/2, whose compression has room for no
/// more.
pub(crate) const FIELDS_BYTES_MAX: usize = 15 * 1_024;

/// Whether a response is one that may go before the answer.
pub(crate) fn check(response: &Response) -> Result<(), Error> {
    if response.refusal() == Some(Refusal::NoRoom) {
        return Err(OverBudget::new(0).into());
    }
    if response.kind() == Kind::Streamed || response.length() != BodyLength::Empty {
        return Err(Error::Misuse(Misuse::InterimWithBody));
    }
    if ResponseHead::interim(response.status()).is_err() {
        // What `Response::header` refused has become a 500.
        return Err(Error::Misuse(Misuse::InterimHead));
    }
    if response.fields().as_bytes().len() > FIELDS_BYTES_MAX {
        return Err(Error::Misuse(Misuse::InterimFieldsTooLong));
    }
    Ok(())
}
