//! What every room may name: settings, errors, counters, and what is known of a peer.
//!
//! Imports may go to no other room.
//!
//! | file | what it is |
//! |---|---|
//! | [`access_record`] | what is told of an answer, for an access log |
//! | [`config`] | the limits of a server |
//! | `data_error` | what is wrong with the data of a request |
//! | [`error`] | what a handler's calls can fail with |
//! | [`counters`] | what a server has done |
//! | [`exchange_end`] | what was begun ends once, for one reason, which is counted |
//! | [`handshakes`] | how handshakes of TLS end, and how many have |
//! | [`known_peers`] | addresses of peers that were asked for before |
//! | [`misuse`] | how a handler may use a call when that makes no sense |
//! | [`peers`] | what is known of a peer beside its socket, and how many connections an address has |
//! | [`preface`] | whether a connection begins as one of HTTP/2 |
//! | [`proxy_header`] | the PROXY protocol: bytes in, the client's address out |
//! | [`stop`] | the stop of one server |
//! | [`forwarded`] | the client's address as proxies say it in their fields |
//! | [`sys`] | threads |

pub(crate) mod access_record;
pub(crate) mod config;
pub(crate) mod counters;
#[cfg(feature = "serde")]
pub(crate) mod data_error;
pub(crate) mod error;
pub(crate) mod exchange_end;
pub(crate) mod forwarded;
pub(crate) mod handshakes;
pub(crate) mod known_peers;
pub(crate) mod misuse;
pub(crate) mod peers;
pub(crate) mod preface;
pub(crate) mod proxy_header;
pub(crate) mod stop;
pub(crate) mod sys;
