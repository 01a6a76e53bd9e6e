//! Tests of WebSocket.
mod frames;
mod handshakes;
#[cfg(feature = "deflate")]
mod inflation;
