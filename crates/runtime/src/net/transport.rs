//! How the bytes of a connection are carried, beneath its protocol: as they are, or in records of a [`Transport`].
//!
//! ```text
//!   owner of the table    plaintext   Transport::seal     records    socket
//!                       -----------> at most 16 KiB each ---------->
//!                       <----------- Transport::open     <----------
//! ```
//!
//! A [`Table`](super::Table) opens and seals below its verbs and events: who steps a connection sees plaintext alone.
//! What was opened and has not been taken yet is told as bytes in the socket are.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, OverBudget, Pool};

/// Plaintext that is sealed at a time, in bytes, at most.
pub const SEALED_BYTES_MAX: usize = 16 * 1024;

/// Carries the bytes of one connection: what TLS does.
pub trait Transport {
    /// Takes in what the peer has sent, in whatever pieces it comes, and gives the plaintext of it. `None` while a
    /// record is not whole: what came of it is kept.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the connection is good for nothing then but to be closed.
    fn open(&mut self, pool: &Pool, received: &[u8]) -> Result<Option<Lease>, OpenError>;

    /// What is to be sent for so much plaintext, at most [`SEALED_BYTES_MAX`]. It is sent, and once: what found no room
    /// was not sealed.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for it. Nothing has been done then.
    fn seal(&mut self, pool: &Pool, plaintext: &[u8]) -> Result<Lease, OverBudget>;
}

/// Makes what carries the bytes of one connection.
pub type MakeTransport = fn() -> Box<dyn Transport>;

/// Why what a peer sent is no plaintext.
#[derive(Debug)]
pub enum OpenError {
    /// There is no room for it.
    OverBudget(OverBudget),
    /// The peer broke the rules of the transport.
    Malformed,
}

impl From<OverBudget> for OpenError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}
