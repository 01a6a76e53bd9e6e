//! HPACK: compression of header lists for HTTP/2 (RFC 7541).
//!
//! ```text
//! header block -> Decoder -> FieldBuf: names and values in the caller's bytes, one slot for each field
//! fields -> Encoder -> Sink
//! ```
//!
//! Nothing is allocated. Both sides keep their dynamic table in bytes that the caller passes to every call: always the
//! same bytes, as many as the table's size, and nothing else may write to them. They can be moved between two calls.
//!
//! # Limits
//!
//! | limit | where | when it is passed |
//! |---|---|---|
//! | size of the decoder's table | [`Decoder::new`] | a size update above it ends the connection |
//! | size of a decoded list, as RFC 9113 6.5.2 counts it | [`FieldBuf::new`] | [`FieldBuf::is_over`]; the table is kept true, the fields are dropped |
//! | number of fields | length of the slots | the same |
//! | size updates in a block | [`SIZE_UPDATES_MAX`] | ends the connection |
//! | size of the encoder's table | [`Encoder::new`] | never: a peer can only ask for less |
//!
//! A field that is dropped because the list is over its limit costs no copy: a block of one-byte references to one
//! large entry (an "HPACK bomb", CVE-2016-6581) is read at the cost of its own bytes.
mod decoder;
pub(crate) mod discard;
mod encoder;
pub(crate) mod huffman;
mod integer;
pub(crate) mod mark;
mod static_table;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::{Decoder, FieldBuf, SIZE_UPDATES_MAX};
pub use encoder::{Encoder, Indexing};

/// The size of both dynamic tables before anybody asks for another one, and the largest that an [`Encoder`] uses.
pub const TABLE_BYTES: usize = 4_096;

/// What each field adds to the size of a list or table, beside its name and value (RFC 7541 4.1, RFC 9113 6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;
