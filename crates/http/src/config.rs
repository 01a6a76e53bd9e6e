//! The limits of a server.

use ::core::time::Duration;

use plimsoll_codec::h1::Limits;
use plimsoll_pool::{AdaptiveSize, Class};

/// The limits of a server. All of them have a default.
///
/// ```
/// use plimsoll_http::Config;
/// use std::time::Duration;
///
/// let config = Config { keep_alive_timeout: Duration::from_secs(5), ..Config::default() };
/// assert_eq!(config.head_timeout, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits of the HTTP/1.1 codec: bytes of a head, fields, trailers, chunk framing.
    pub limits: Limits,
    /// How long a connection may be parked. Default 60 s.
    pub keep_alive_timeout: Duration,
    /// How long a head may take from its first byte; never extended. Default 10 s.
    pub head_timeout: Duration,
    /// How long the peer may send nothing while a handler waits for the body. Default 30 s.
    pub body_timeout: Duration,
    /// How long the peer may take nothing of an answer. Default 30 s.
    pub send_timeout: Duration,
    /// How long a connection that is closed on our side may go on sending, so that the peer sees the answer. Default 2 s.
    pub linger_timeout: Duration,
    /// Body bytes that are read and dropped after an answer, to keep the connection, or to let the peer see the answer. Default 64 KiB.
    pub drain_bytes_max: u32,
    /// Bytes of a body that [`Request::collect`](crate::Request::collect) takes. Default 2 MiB.
    pub collect_bytes_max: usize,
    /// Answers to pipelined requests that are gathered before the socket must take some. Default and at most 64 KiB.
    pub output_bytes_max: usize,
    /// Sizes of the buffers that large bodies are received into: what comes decides between the bounds, and less when memory is short. Default
    /// 4 KiB to 128 KiB.
    pub body_receive: AdaptiveSize,
    /// Requests of one connection; `None` for no end. Default `None`.
    pub requests_max: Option<u32>,
    /// Connections of one worker; the memory line may allow fewer. Default 16,777,215.
    pub connections_max: u32,
    /// How long exchanges may run on after the stop. Default 10 s.
    pub drain_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            keep_alive_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(2),
            drain_bytes_max: 64 * 1024,
            collect_bytes_max: 2 * 1024 * 1024,
            output_bytes_max: 64 * 1024,
            body_receive: AdaptiveSize::new(Class::K4, Class::K128),
            requests_max: None,
            connections_max: (1 << 24) - 1,
            drain_timeout: Duration::from_secs(10),
        }
    }
}
