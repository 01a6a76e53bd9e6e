//! Moving bytes between connections.
//!
//! [`relay`] copies in both directions until both peers are done. A relay that waits holds no buffer and no task: two
//! entries of a table, and two armed receives.
#![forbid(unsafe_code)]

mod relay;
mod relays;

pub use relay::{RELAY_BYTES, Relay, RelayEnd, Relayed, drain_relays, open_relays, relay};
