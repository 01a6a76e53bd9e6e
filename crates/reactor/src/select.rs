//! Which driver a process runs on: chosen once, at run time, with the reason kept.
#![forbid(unsafe_code)]

use crate::choice::{DriverChoice, DriverKind, ReceiveMode, Selected};
use crate::error::Error;
use crate::probe::probe;

/// Finds out what this system offers, by doing it: sets up a ring, accepts, receives and sends over loopback.
///
/// # Errors
///
/// [`Error::DriverUnavailable`] when io_uring is forced and does not work here.
pub fn select(choice: DriverChoice) -> Result<Selected, Error> {
    let mio = Selected { kind: DriverKind::Mio, receive: ReceiveMode::Poll, reason: None };
    if choice == DriverChoice::Mio {
        return Ok(mio);
    }
    match probe() {
        Ok(receive) => Ok(Selected { kind: DriverKind::Uring, receive, reason: None }),
        Err((step, errno)) if choice == DriverChoice::Uring => {
            Err(Error::DriverUnavailable { driver: DriverKind::Uring, step, errno })
        }
        Err(reason) => Ok(Selected { reason: Some(reason), ..mio }),
    }
}
