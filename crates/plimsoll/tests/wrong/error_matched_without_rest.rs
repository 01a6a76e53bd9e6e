//! An error whose kinds may grow.
use plimsoll::http::Error;

fn is_gone(error: &Error) -> bool {
    match error {
        Error::Disconnected => true,
        Error::Peer(_) | Error::OverBudget(_) => false,
    }
}

fn main() {
    is_gone(&Error::Disconnected);
}
