//! The HTTP/2 codec under blocking sockets: a server for conformance suites. One thread for each connection, so many at
//! a time, each bounded in bytes and time.
//!
//! `cargo run -p plimsoll-codec --example h2_server -- 127.0.0.1:8082`, then `h2spec --strict -h 127.0.0.1 -p 8082`.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::{BodyLength, FieldSlot, Fields, ResponseHead};
use plimsoll_codec::h2::{Connection, Event, Limits, Repeat, Storage, Stream, StreamKey};
use plimsoll_codec::hpack::TABLE_BYTES;

const BODY: &[u8] = b"hello over HTTP/2\n";
const FIELDS: &[u8] = b"content-type: text/plain\r\n";
const LIMITS: Limits = Limits::DEFAULT;
const STREAMS: usize = 128;
/// More than that are closed at once.
const CONNECTIONS_MAX: usize = 64;
/// The largest header block with the headers of its frames, and some more.
const INPUT_BYTES: usize = 32 * 1_024;
/// No peer keeps this server for longer without a byte.
const SILENCE: Duration = Duration::from_secs(3);

/// All memory of a connection.
struct Memory {
    streams: [Stream; STREAMS],
    /// Whether the request was a HEAD, and how much of the body was sent, for each slot.
    answers: [Answer; STREAMS],
    decoder_table: [u8; TABLE_BYTES],
    encoder_table: [u8; TABLE_BYTES],
    bytes: Vec<u8>,
    slots: [FieldSlot; 100],
    repeat: Repeat,
}

#[derive(Copy, Clone)]
struct Answer {
    stream: Option<StreamKey>,
    method_has_body: bool,
    sent: usize,
}

impl Answer {
    const NONE: Answer = Answer { stream: None, method_has_body: true, sent: 0 };
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8082".into());
    let listener = TcpListener::bind(&address)?;
    writeln!(io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let permits = Arc::new(());
    for socket in listener.incoming() {
        let permit = Arc::clone(&permits);
        if Arc::strong_count(&permits) > 1 + CONNECTIONS_MAX {
            continue;
        }
        thread::spawn(move || {
            let _held_until_the_end = permit;
            // A peer that goes away in the middle ends its connection, not the server.
            socket.and_then(serve).unwrap_or_default();
        });
    }
    Ok(())
}

fn serve(mut socket: TcpStream) -> io::Result<()> {
    socket.set_read_timeout(Some(SILENCE))?;
    socket.set_write_timeout(Some(SILENCE))?;
    socket.set_nodelay(true)?;
    let mut memory = Memory {
        streams: [Stream::FREE; STREAMS],
        answers: [Answer::NONE; STREAMS],
        decoder_table: [0; TABLE_BYTES],
        encoder_table: [0; TABLE_BYTES],
        bytes: vec![0; LIMITS.scratch_bytes()],
        slots: [FieldSlot::EMPTY; 100],
        repeat: Repeat::default(),
    };
    let mut connection = Connection::new(&LIMITS);
    let (mut input, mut have) = (vec![0; INPUT_BYTES], 0);
    let mut out = Vec::new();
    connection.begin(&mut out).map_err(io::Error::other)?;
    loop {
        let turn = turn(&mut connection, &input[..have], &mut memory, &mut out);
        // Everything that this turn gave leaves in one write.
        socket.write_all(&out)?;
        out.clear();
        connection.output_sent();
        let used = match turn {
            Ok(used) => used,
            Err(_broken) => return linger(socket),
        };
        input.copy_within(used..have, 0);
        have -= used;
        match socket.read(&mut input[have..]) {
            Ok(0) => return Ok(()),
            Ok(len) => have += len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Steps through the input as far as it goes. Returns how much of it was used.
fn turn(
    connection: &mut Connection,
    input: &[u8],
    memory: &mut Memory,
    out: &mut Vec<u8>,
) -> Result<usize, plimsoll_codec::Error> {
    let Memory { streams, answers, decoder_table, encoder_table, bytes, slots, repeat } = memory;
    let mut storage = Storage { streams, decoder_table, encoder_table, bytes, slots, repeat };
    let mut used = 0;
    loop {
        let step = connection.step(&input[used..], &mut storage, out, 0)?;
        used += step.consumed;
        match step.event {
            Event::Request { stream, ends } => {
                let method_has_body = storage.view().method() != Method::HEAD;
                answers[usize::from(stream.slot)] = Answer { stream: Some(stream), method_has_body, sent: 0 };
                if ends {
                    answer(connection, stream, answers, &mut storage, out)?;
                }
            }
            Event::End { stream } | Event::Trailers { stream, .. } => {
                answer(connection, stream, answers, &mut storage, out)?;
            }
            Event::Data { stream, bytes, .. } => {
                // Dropped, which is all that this server does with a body.
                connection.take_data(bytes);
                used += bytes;
                connection.release(stream, bytes, &mut storage, out)?;
            }
            Event::Reset { stream, .. } => {
                answers[usize::from(stream.slot)] = Answer::NONE;
                connection.forget(stream, &mut storage, out)?;
            }
            Event::Writable => send(connection, answers, &mut storage, out)?,
            Event::NeedMore { .. } | Event::NeedOutput => return Ok(used),
            _ => {}
        }
    }
}

fn answer(
    connection: &mut Connection,
    stream: StreamKey,
    answers: &mut [Answer],
    storage: &mut Storage<'_>,
    out: &mut Vec<u8>,
) -> Result<(), plimsoll_codec::Error> {
    let has_body = answers[usize::from(stream.slot)].method_has_body;
    let method = if has_body { Method::GET } else { Method::HEAD };
    let length = BodyLength::Known(BODY.len() as u64);
    let head = ResponseHead::new(&method, Version::HTTP_2, StatusCode::OK, length)?.fields(Fields::check(FIELDS)?);
    connection.put_response(stream, &head, !has_body, storage, out)?;
    if has_body {
        connection.set_waiting(stream, true, storage);
        return send(connection, answers, storage, out);
    }
    connection.forget(stream, storage, out)
}

/// Sends what the windows allow, in the order of the priorities.
fn send(
    connection: &mut Connection,
    answers: &mut [Answer],
    storage: &mut Storage<'_>,
    out: &mut Vec<u8>,
) -> Result<(), plimsoll_codec::Error> {
    while let Some(stream) = connection.next_to_send(storage) {
        let answer = &mut answers[usize::from(stream.slot)];
        debug_assert_eq!(answer.stream, Some(stream));
        let rest = &BODY[answer.sent..];
        let len = connection.data_room(stream, rest.len(), storage);
        let ends = len == rest.len();
        connection.put_data_header(stream, len, ends, storage, out)?;
        out.extend_from_slice(&rest[..len]);
        answer.sent += len;
        if ends {
            *answer = Answer::NONE;
            connection.forget(stream, storage, out)?;
        }
    }
    Ok(())
}

/// Lets the peer read our GOAWAY before the socket is closed, which unread input would turn into a reset.
fn linger(mut socket: TcpStream) -> io::Result<()> {
    socket.shutdown(Shutdown::Write)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut dropped = [0; 4_096];
    for _ in 0..64 {
        if !matches!(socket.read(&mut dropped), Ok(1..)) {
            break;
        }
    }
    Ok(())
}
