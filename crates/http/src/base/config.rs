//! The limits of a server.

use ::core::time::Duration;

use plimsoll_codec::h1::Limits;
use plimsoll_codec::h2;
use plimsoll_pool::{AdaptiveSize, Class};
use plimsoll_runtime::OutOfRange;
use plimsoll_runtime::net::{RECEIVE_LEASES_MAX, TIMER_STEP};

use crate::base::forwarded::Network;

/// What is gathered is one lease: this much, and another answer of the copied size with its fields.
const OUTPUT_BYTES_CEILING: usize = 64 * 1024;
/// Keys of the connection table have 24 bits for the index.
const CONNECTIONS_CEILING: u32 = (1 << 24) - 1;
/// A day: longer waits are mistakes in the unit.
const TIMEOUT_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// An age is counted in quarters of a second; a year is enough.
const AGE_CEILING: Duration = Duration::from_secs(366 * 24 * 3_600);

/// The limits of a server. All of them have a default, and [`validate`](Self::validate) says what is wrong with a
/// value. [`Server::serve`](crate::Server::serve) validates too.
///
/// ```
/// use plimsoll_http::Config;
/// use std::time::Duration;
///
/// let config = Config { keep_alive_timeout: Duration::from_secs(5), ..Config::default() };
/// assert_eq!(config.head_timeout, Duration::from_secs(10));
/// config.validate()?;
/// assert!(Config { output_bytes_max: 0, ..Config::default() }.validate().is_err());
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits of the HTTP/1.1 codec: bytes of a head, fields, trailers, chunk framing.
    pub limits: Limits,
    /// What it means that the peer ends its half of the connection while a handler runs. Default [`HalfClose::Gone`].
    pub half_close: HalfClose,
    /// Whether HTTP/2 is spoken. Default [`Http2::ByPreface`].
    pub http2: Http2,
    /// Limits of the HTTP/2 codec: streams, fields, windows, resets.
    pub http2_limits: h2::Limits,
    /// How long a connection may be parked; a quarter of that while memory is short
    /// ([`Level`](plimsoll_runtime::memory::Level): yellow and above). Default 60 s.
    pub keep_alive_timeout: Duration,
    /// How long a head may take from its first byte; never extended. Default 10 s.
    pub head_timeout: Duration,
    /// How long the server waits for a body's bytes, all waits together: each byte that comes earns back some of it,
    /// see [`body_bytes_per_second_min`](Self::body_bytes_per_second_min). So this is also how long the peer may be
    /// silent. Time in which the handler does not ask for the body does not count. In HTTP/2, where the peer's windows
    /// are held then, as memory is short, [`memory_timeout`](Self::memory_timeout) comes on top. Default 30 s.
    pub body_timeout: Duration,
    /// Bytes of a body that earn a second of waiting back, so a body that comes more slowly for longer than
    /// [`body_timeout`](Self::body_timeout) is cut off; at least 1. `None`: any byte starts the wait anew. Default
    /// 1,024. The same holds for bytes of an answer that the windows of HTTP/2 let go, against
    /// [`send_timeout`](Self::send_timeout).
    pub body_bytes_per_second_min: Option<u32>,
    /// How long a handler's future may run. Then it is dropped; the peer gets 503 if no answer was begun. `None` for no
    /// end. Default `None`.
    pub handler_timeout: Option<Duration>,
    /// How long the peer may take nothing of an answer: its socket, and in HTTP/2 also its windows, which reset the
    /// stream. An answer that waits for its turn behind others is not held up by them. Default 30 s.
    pub send_timeout: Duration,
    /// How long a request may wait to be begun when there is no memory for it under the line. Then the peer gets 503
    /// with Retry-After. Default 1 s.
    pub admission_timeout: Duration,
    /// How long an answer or a part of a body may wait for memory, when there is none under the line. Then the peer
    /// gets 503 if no answer was begun, else its connection is closed, in HTTP/2 its stream. Default 10 s.
    pub memory_timeout: Duration,
    /// How long a request that was begun is protected: it is not shed for want of memory before. After that it may
    /// be, while others wait. Default 10 s.
    pub begun_protection: Duration,
    /// How fast a peer must take or send, in bytes a second, while others wait for memory: one that is slower over
    /// [`slow_span`](Self::slow_span) is shed, the slowest first. Only time counts in which its socket has output
    /// to take, or a handler waits for its body. A body that is too slow is told its handler as after
    /// [`body_timeout`](Self::body_timeout). 0 switches it off. Default 16 KiB.
    pub slow_bytes_per_second: u32,
    /// How long a peer may be slower than [`slow_bytes_per_second`](Self::slow_bytes_per_second) while others wait for
    /// memory. Default 4 s.
    pub slow_span: Duration,
    /// The progress reserve: bytes that each worker keeps, and lends when an answer or a body that was begun waits for
    /// memory and nobody gives any back; one piece at a time, and the next when it is whole again. At most 64 KiB, and
    /// half of that where a worker's share of the line is below 2 MiB; 0 for none. Default 64 KiB.
    pub progress_reserve_bytes: u32,
    /// How long a connection that is closed on our side may go on sending, so that the peer sees the answer; anew for
    /// as long as the rest of its request comes as fast as a [body](Self::body_bytes_per_second_min) must, up to
    /// [`drain_bytes_max`](Self::drain_bytes_max). Default 2 s.
    pub linger_timeout: Duration,
    /// How long exchanges may run on after the stop. Default 10 s.
    pub drain_timeout: Duration,
    /// Milliseconds for which a connection without a request stays open after the stop, so that a request which is on
    /// its way is answered (with `Connection: close`) and not lost; counted anew from each request that comes to its
    /// worker meanwhile. Then its write side is ended, and it lingers for [`linger_timeout`](Self::linger_timeout) at
    /// most. At most a day; 0 ends it at once. Default 1,000.
    pub stop_idle_ms: u32,
    /// How old a connection may get: the first answer after that closes it, and one that is parked is closed. `None`
    /// for no end. Default `None`.
    pub connection_age_max: Option<Duration>,
    /// Bytes of a body that no handler wants and that are read and dropped, to keep the connection or to let the peer
    /// see the answer. They hold no memory, and must come as fast as [other bodies](Self::body_bytes_per_second_min).
    /// An answer to a request with a longer body says `Connection: close`. A body in chunks does not say how long it
    /// is: it is dropped up to here, and then the connection is closed within it. Default 1 GiB.
    pub drain_bytes_max: u32,
    /// Bytes of a body that [`Request::collect`](crate::Request::collect) takes. Default 2 MiB.
    pub collect_bytes_max: usize,
    /// Answers to pipelined requests that are gathered before the socket must take some; also what a handler that
    /// streams may be ahead of the socket, before it waits. 1 byte to 64 KiB. Default 64 KiB. Of pipelined answers less
    /// is gathered where a worker has very many connections at work: a quarter of its share of the memory line is
    /// divided by them, and each may have 4 KiB.
    pub output_bytes_max: usize,
    /// Sizes of the buffers that large bodies of HTTP/1.1 are received into: what comes decides between the bounds, and
    /// less when memory is short. Default 4 KiB to 128 KiB.
    pub body_receive: AdaptiveSize,
    /// Buffers of the largest of these sizes that a body is received into at a time, while they are filled: the more
    /// there are, the fewer calls of the system it takes. A connection holds them only from the receive until its
    /// handler has taken them, only while memory is not short, and no more than fit into 1/32 of a worker's share of
    /// the memory line. One buffer is always allowed. 1 to 8. Default 8.
    pub body_receive_leases_max: u8,
    /// Pipelined requests that are answered before the socket must have taken all of their answers; at least 1. Default
    /// 16.
    pub read_ahead_requests_max: u32,
    /// Informational responses (1xx) that a handler may send before its answer, see
    /// [`Request::inform`](crate::Request::inform); 0 for none. Some clients give a request up after five of them.
    /// Default 16.
    pub interim_responses_max: u32,
    /// Requests of one connection; at least 1. `None` for no end. Default `None`.
    pub requests_max: Option<u32>,
    /// Connections of all workers together, 1 to 16,777,215; the memory line may allow fewer. One more is told 503 with
    /// Retry-After from static bytes. Default 16,777,215.
    pub connections_max: u32,
    /// Handlers that run at a time, of all workers together: at least 1. A handler counts from its start until it has
    /// answered. One more request waits as one does for which there is no memory: for
    /// [`admission_timeout`](Self::admission_timeout) at most, in turns over addresses, and then the peer gets 503 with
    /// Retry-After. Two workers that begin one at the same moment may both: so there may be one more for each further
    /// worker. `None` for no limit. Default `None`.
    pub handlers_in_progress_max: Option<u32>,
    /// Handshakes of TLS that each worker has in progress, at least 1; half of them, rounded up, of one address. Each
    /// may come to hold 24 KiB. Others wait in turns over addresses, for [`head_timeout`](Self::head_timeout) from
    /// their accept or their PROXY header at most, and nothing is reserved or read for them before. `None`: as many as
    /// fit into an eighth of a worker's share of the memory line, 2 to 4,096. Default `None`.
    pub handshakes_in_progress_max: Option<u32>,
    /// Paths of routes that are always answered, such as `/health`, compared as they come and without a query, whatever
    /// the method. Where there are some, each worker keeps 64 KiB of the line, and lets four requests for them run
    /// beside all others: they wait for no memory, no turn and no other handler, and are not refused. Their answers
    /// should be small, and given without waiting. See also [`Router::reserved`](crate::Router::reserved). Default
    /// none.
    pub reserved_paths: Vec<String>,
    /// Connections of one peer address, of all workers together; at least 1. An IPv6 address counts by its /64. One
    /// more is told 503. With a PROXY header, its source counts. `None` for no limit. Default `None`.
    pub connections_per_address_max: Option<u32>,
    /// Whether connections begin with a PROXY header. Default [`ProxyProtocol::Off`].
    pub proxy_protocol: ProxyProtocol,
    /// Proxies that are believed when they say, by `Forwarded` (RFC 7239) or `X-Forwarded-For`, for whom a request is:
    /// the rightmost address there that is none of these. While memory is short that client's share decides who begins
    /// next, for each request and each stream of HTTP/2, in the place of the peer's; an IPv6 address counts by its /64.
    /// What is malformed, hidden or unknown, or not the same in both fields, leaves it at the peer, and so do the
    /// limits on connections and the access log. The peer is whom a PROXY header says, where there is one. Only for
    /// proxies that add the address they got the request from. See also
    /// [`Request::client_ip`](crate::Request::client_ip). Default none.
    pub forwarded_from: Vec<Network>,
    /// How long a PROXY header may take from the accept; never extended. Default 5 s.
    pub proxy_header_timeout: Duration,
    /// What the sockets of connections are set to.
    pub tcp: TcpOptions,
}

/// What it means that the peer of a connection ends its half while a handler runs that has not begun its answer. A
/// connection that is closed and one that is half closed look the same until something is sent. An answer that was
/// begun is always sent to its end: its handler is dropped when the peer resets the connection, as it does when it was
/// closed and more of the answer comes. With HTTP/2 this is decided for each stream, and an answer goes as far as the
/// windows that the peer gave: it cannot open them any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HalfClose {
    /// It went away: the handler's future is dropped, the connection closed when no other answer is on its way.
    #[default]
    Gone,
    /// It has sent all its requests and waits for the answers, as `printf ... | nc` does. Handlers then run on for
    /// clients that went away.
    Answered,
}

/// Whether HTTP/2 is spoken with clients that know it beforehand (RFC 9113 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Http2 {
    /// Never: the preface is a malformed request.
    Off,
    /// With a connection that begins with the preface; with others HTTP/1.1.
    #[default]
    ByPreface,
    /// Always: a connection that begins otherwise is closed, a request of HTTP/1 with 505 before.
    Only,
}

/// Whether connections begin with a PROXY header (version 1 or 2, as HAProxy specifies it), which tells the client's
/// address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyProtocol {
    /// None does: one that is sent is a malformed request.
    #[default]
    Off,
    /// All do: a connection that begins otherwise is closed without an answer. With TLS the header comes in the clear,
    /// before the handshake. Only for listeners that nobody but the proxy can reach.
    Required,
}

/// Options of a connection's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOptions {
    /// `TCP_NODELAY`. Default `true`.
    pub no_delay: bool,
    /// Keep-alive probes after so much silence, in whole seconds. `None`: no probes. Default `None`.
    pub keep_alive_idle: Option<Duration>,
    /// `TCP_USER_TIMEOUT`: how long sent bytes may stay without acknowledgement. `None`: the system's. Default `None`.
    pub user_timeout: Option<Duration>,
    /// `TCP_NOTSENT_LOWAT`: bytes the kernel takes beyond what is under way. `None`: the system's. Default `None`.
    pub not_sent_bytes_max: Option<u32>,
}

impl Default for TcpOptions {
    /// Small segments leave at once; the rest as the system has it.
    fn default() -> Self {
        Self { no_delay: true, keep_alive_idle: None, user_timeout: None, not_sent_bytes_max: None }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            half_close: HalfClose::default(),
            http2: Http2::default(),
            http2_limits: h2::Limits::DEFAULT,
            keep_alive_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            body_bytes_per_second_min: Some(1_024),
            handler_timeout: None,
            send_timeout: Duration::from_secs(30),
            admission_timeout: Duration::from_secs(1),
            memory_timeout: Duration::from_secs(10),
            begun_protection: Duration::from_secs(10),
            slow_bytes_per_second: 16 * 1_024,
            slow_span: Duration::from_secs(4),
            progress_reserve_bytes: 64 * 1_024,
            linger_timeout: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(10),
            stop_idle_ms: 1_000,
            connection_age_max: None,
            drain_bytes_max: 1 << 30,
            collect_bytes_max: 2 * 1024 * 1024,
            output_bytes_max: OUTPUT_BYTES_CEILING,
            body_receive: AdaptiveSize::new(Class::K4, Class::K128),
            body_receive_leases_max: 8,
            read_ahead_requests_max: 16,
            interim_responses_max: 16,
            requests_max: None,
            connections_max: CONNECTIONS_CEILING,
            handlers_in_progress_max: None,
            handshakes_in_progress_max: None,
            reserved_paths: Vec::new(),
            connections_per_address_max: None,
            proxy_protocol: ProxyProtocol::Off,
            forwarded_from: Vec::new(),
            proxy_header_timeout: Duration::from_secs(5),
            tcp: TcpOptions::default(),
        }
    }
}

impl Config {
    /// How long a request waits to be begun: it is begun or refused within its timeout, though timers are late.
    pub(crate) fn wait_to_begin(&self, has_body: bool) -> Duration {
        let within = if has_body { self.memory_timeout } else { self.admission_timeout };
        within.saturating_sub(TIMER_STEP)
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// Which value is out of its range, and the range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let is_wait = |wait: Duration| !wait.is_zero() && wait <= TIMEOUT_CEILING;
        let is_some_wait = |wait: Option<Duration>| wait.is_none_or(is_wait);
        let is_age = |age: Duration| !age.is_zero() && age <= AGE_CEILING;
        let rules = [
            (is_wait(self.keep_alive_timeout), "keep_alive_timeout", "more than 0 and at most a day"),
            (is_wait(self.head_timeout), "head_timeout", "more than 0 and at most a day"),
            (is_wait(self.body_timeout), "body_timeout", "more than 0 and at most a day"),
            (is_wait(self.send_timeout), "send_timeout", "more than 0 and at most a day"),
            (is_wait(self.admission_timeout), "admission_timeout", "more than 0 and at most a day"),
            (is_wait(self.memory_timeout), "memory_timeout", "more than 0 and at most a day"),
            (self.begun_protection <= TIMEOUT_CEILING, "begun_protection", "at most a day"),
            (is_wait(self.slow_span), "slow_span", "more than 0 and at most a day"),
            (self.progress_reserve_bytes <= 64 * 1_024, "progress_reserve_bytes", "at most 65,536"),
            (is_wait(self.linger_timeout), "linger_timeout", "more than 0 and at most a day"),
            (self.drain_timeout <= TIMEOUT_CEILING, "drain_timeout", "at most a day"),
            (
                Duration::from_millis(u64::from(self.stop_idle_ms)) <= TIMEOUT_CEILING,
                "stop_idle_ms",
                "at most 86,400,000, a day",
            ),
            (is_wait(self.proxy_header_timeout), "proxy_header_timeout", "more than 0 and at most a day"),
            (
                is_some_wait(self.handler_timeout),
                "handler_timeout",
                "more than 0 and at most a day; None switches it off",
            ),
            (
                self.connection_age_max.is_none_or(is_age),
                "connection_age_max",
                "more than 0 and at most 366 days; None switches it off",
            ),
            (
                self.body_bytes_per_second_min != Some(0),
                "body_bytes_per_second_min",
                "at least 1; None switches it off",
            ),
            (
                (1..=OUTPUT_BYTES_CEILING).contains(&self.output_bytes_max),
                "output_bytes_max",
                "between 1 and 65,536 bytes",
            ),
            (
                (1..=RECEIVE_LEASES_MAX).contains(&usize::from(self.body_receive_leases_max)),
                "body_receive_leases_max",
                "between 1 and 8",
            ),
            (self.read_ahead_requests_max > 0, "read_ahead_requests_max", "at least 1"),
            (self.requests_max != Some(0), "requests_max", "at least 1; None switches it off"),
            ((1..=CONNECTIONS_CEILING).contains(&self.connections_max), "connections_max", "between 1 and 16,777,215"),
            (
                self.handshakes_in_progress_max.is_none_or(|max| (1..=65_536).contains(&max)),
                "handshakes_in_progress_max",
                "between 1 and 65,536; None leaves it to the memory line",
            ),
            (self.handlers_in_progress_max != Some(0), "handlers_in_progress_max", "at least 1; None switches it off"),
            (
                self.connections_per_address_max != Some(0),
                "connections_per_address_max",
                "at least 1; None switches it off",
            ),
            (
                is_some_wait(self.tcp.keep_alive_idle),
                "tcp.keep_alive_idle",
                "more than 0 and at most a day; None switches the probes off",
            ),
            (
                is_some_wait(self.tcp.user_timeout),
                "tcp.user_timeout",
                "more than 0 and at most a day; None leaves it to the system",
            ),
        ];
        match rules.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, allowed)) => Err(OutOfRange::new(setting, allowed)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
