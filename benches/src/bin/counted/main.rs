//! A fixed number of requests of one kind, for callgrind to count: `counted KIND COUNT`, or `counted --kinds` for their
//! names.
//!
//! Everything is decided by a seed: the server runs in a simulated world, its clients in the same worker. Two runs that
//! differ in `COUNT` alone differ by the instructions of so many requests; starting, connecting and ending cancel out.
//! `cargo xtask bench --instructions` does that.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the command line")]

mod codec;
#[cfg(feature = "layers")]
mod layers;
mod requests;
mod server;

use std::process::ExitCode;

use plimsoll::MemoryLimit;

/// A kind of request. What a request of it costs is one line of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Search and parse of a small head, without a server.
    CodecHead,
    /// The same of a head of 20 fields.
    CodecHead20,
    /// Decoding of a body of four chunks, without a server.
    CodecChunked,
    /// One small GET after the other on a connection.
    Get,
    /// The same under a line that is never near.
    GetUnlimited,
    /// The same, sixteen at a time.
    Pipelined,
    /// The same under a line that is never near.
    PipelinedUnlimited,
    /// A GET with 20 fields.
    Head20,
    /// POST of 1,000 bytes with a length, echoed.
    EchoLength,
    /// POST of 1,000 bytes in four chunks, echoed.
    EchoChunked,
    /// One small GET after the other on a connection of HTTP/2.
    Http2Get,
    /// The same, 32 streams at a time.
    Http2Streams32,
    /// One small GET on one of 32 connections, each of which has been parked for half a minute.
    Parked,
    /// A message of 64 bytes after the other on a WebSocket, each of which comes back from a handler.
    WebSocketEcho,
    /// The same from a task.
    WebSocketEchoTask,
}

/// All kinds, in the order of the report.
const KINDS: [(&str, Kind); 15] = [
    ("codec-head", Kind::CodecHead),
    ("codec-head-20", Kind::CodecHead20),
    ("codec-chunked", Kind::CodecChunked),
    ("get", Kind::Get),
    ("get-unlimited", Kind::GetUnlimited),
    ("pipelined-16", Kind::Pipelined),
    ("pipelined-16-unlimited", Kind::PipelinedUnlimited),
    ("head-20", Kind::Head20),
    ("echo-length", Kind::EchoLength),
    ("echo-chunked", Kind::EchoChunked),
    ("h2-get", Kind::Http2Get),
    ("h2-streams-32", Kind::Http2Streams32),
    ("parked", Kind::Parked),
    ("ws-echo", Kind::WebSocketEcho),
    ("ws-echo-task", Kind::WebSocketEchoTask),
];

/// Under which the server runs: 64 MiB, and far more than any machine has.
const LINE: MemoryLimit = MemoryLimit::mib(64);
const UNLIMITED: MemoryLimit = MemoryLimit::gib(1 << 20);

/// Counts are multiples of this: of what is pipelined at once, and of the connections that take turns.
const COUNT_STEP: u32 = 32;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        #[cfg(feature = "layers")]
        ["--kinds"] => layers::KINDS.iter().for_each(|name| println!("{name}")),
        #[cfg(feature = "layers")]
        [name, count] if layers::KINDS.contains(&name) => match count.parse() {
            Ok(count) => layers::run(name, count, LINE),
            Err(_) => return usage(),
        },
        #[cfg(not(feature = "layers"))]
        ["--kinds"] => KINDS.iter().for_each(|(name, _)| println!("{name}")),
        [name, count] => {
            let kind = KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
            let count = count.parse().ok().filter(|count: &u32| count.is_multiple_of(COUNT_STEP));
            let (Some(kind), Some(count)) = (kind, count) else { return usage() };
            run(kind, count);
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn run(kind: Kind, count: u32) {
    match kind {
        Kind::CodecHead => codec::heads(requests::GET, count),
        Kind::CodecHead20 => codec::heads(requests::GET_20_FIELDS, count),
        Kind::CodecChunked => codec::chunked(count),
        Kind::Get => server::one_by_one(requests::GET, count, LINE),
        Kind::GetUnlimited => server::one_by_one(requests::GET, count, UNLIMITED),
        Kind::Pipelined => server::pipelined(count, LINE),
        Kind::PipelinedUnlimited => server::pipelined(count, UNLIMITED),
        Kind::Head20 => server::one_by_one(requests::GET_20_FIELDS, count, LINE),
        Kind::EchoLength => server::one_by_one(&requests::echo_with_length(), count, LINE),
        Kind::EchoChunked => server::one_by_one(&requests::echo_in_chunks(), count, LINE),
        Kind::Http2Get => server::http2(count, 1, LINE),
        Kind::Http2Streams32 => server::http2(count, requests::STREAMS, LINE),
        Kind::Parked => server::in_turns(count, LINE),
        Kind::WebSocketEcho => server::messages(requests::WEBSOCKET, count, LINE),
        Kind::WebSocketEchoTask => server::messages(requests::WEBSOCKET_TASK, count, LINE),
    }
}

fn usage() -> ExitCode {
    eprintln!("counted KIND COUNT: COUNT is a multiple of {COUNT_STEP}; counted --kinds lists the kinds");
    ExitCode::from(2)
}
