//! Clients that end their half of the connection, over both protocols: an answer that was begun is sent to its end, and
//! who goes away is noticed all the same. What HTTP/2 alone has, windows and streams, is in the other suite.

use core::time::Duration;

use plimsoll_http::{Config, Error, HalfClose, Request, Response};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, now, sleep};

use crate::rig::drops::Drops;
use crate::rig::frames::{
    Client, DATA, Frame, INITIAL_WINDOW_SIZE, PREFACE, SETTINGS, frame, get, is_ended, window_update,
};
use crate::rig::half_closed::{LARGE, server};
use crate::rig::{Running, in_simulation, on_each, read, serve, until};

const HALF_CLOSES: [HalfClose; 2] = [HalfClose::Gone, HalfClose::Answered];

/// A connection on which all was asked that will be.
enum Asked {
    Http1(TcpStream, Vec<u8>),
    Http2(Client, Vec<Frame>),
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Http1,
    Http2,
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

/// The requests of a connection of HTTP/1.1, one behind the other.
fn pipeline(paths: &[&str]) -> Vec<u8> {
    paths.iter().map(|path| format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n")).collect::<String>().into_bytes()
}

/// As streams of HTTP/2, which may all take their time: their windows are open.
fn streams(paths: &[&str]) -> Vec<u8> {
    let asks = paths.iter().zip(0..).flat_map(|(path, at)| get(2 * at + 1, &format!("/{path}")));
    window_update(0, 1 << 30).into_iter().chain(asks).collect()
}

/// SETTINGS that open the windows of streams.
fn windows() -> Vec<u8> {
    [&[0, INITIAL_WINDOW_SIZE][..], &(1_u32 << 30).to_be_bytes()].concat()
}

fn bodies(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum()
}

impl Asked {
    async fn new(server: &Running, protocol: Protocol, paths: &[&str]) -> Result<Self> {
        match protocol {
            Protocol::Http1 => {
                let mut client = TcpStream::connect(server.address).await?;
                client.send_bytes(&pipeline(paths)).await?;
                Ok(Self::Http1(client, Vec::new()))
            }
            Protocol::Http2 => {
                let mut client = Client::connect(server.address, &windows()).await?;
                client.send(&streams(paths)).await?;
                Ok(Self::Http2(client, Vec::new()))
            }
        }
    }

    /// The same, and has ended its half.
    async fn half_closed(server: &Running, protocol: Protocol, paths: &[&str]) -> Result<Self> {
        let mut client = Self::new(server, protocol, paths).await?;
        client.end_half().await?;
        Ok(client)
    }

    async fn end_half(&mut self) -> Result<()> {
        match self {
            Self::Http1(client, _) => client.shutdown_write().await,
            Self::Http2(client, _) => client.socket.shutdown_write().await,
        }
    }

    /// Reads so much of the answers; all of them up to the end of the connection with `usize::MAX`.
    async fn read(&mut self, enough: usize) -> Result<()> {
        match self {
            Self::Http1(client, bytes) => {
                while bytes.len() < enough {
                    let Some(lease) = client.recv().await? else { break };
                    bytes.extend_from_slice(&lease);
                }
            }
            Self::Http2(client, frames) => {
                let mut received = bodies(frames);
                while received < enough {
                    let Some(frame) = client.frame().await? else { break };
                    received += bodies(core::slice::from_ref(&frame));
                    frames.push(frame);
                }
            }
        }
        Ok(())
    }

    /// Bytes of bodies that came, and how many answers came whole.
    async fn rest(&mut self) -> Result<(usize, usize)> {
        self.read(usize::MAX).await?;
        match self {
            Self::Http1(_, bytes) => {
                let count = bytes.iter().filter(|&&byte| byte == b'x').count();
                let text = String::from_utf8_lossy(bytes);
                let is_chunked = text.contains("\r\nTransfer-Encoding: chunked\r\n");
                let has_end = if is_chunked { text.ends_with("\r\n0\r\n\r\n") } else { count % LARGE.len() == 0 };
                let answers = text.matches("HTTP/1.1 200 ").count();
                Ok((count, answers - usize::from(!has_end)))
            }
            Self::Http2(_, frames) => {
                let last = frames.iter().map(|frame| frame.stream).max().unwrap_or(0);
                Ok((bodies(frames), (1..=last).step_by(2).filter(|stream| is_ended(frames, *stream)).count()))
            }
        }
    }
}

/// `printf ... | nc -N`. The drivers tell of the end of the peer's half in ways of their own: with the requests in one
/// go, or midway.
#[test]
fn answers_that_were_begun_arrive_whole() {
    for (protocol, half_close) in PROTOCOLS.into_iter().flat_map(|protocol| HALF_CLOSES.map(|how| (protocol, how))) {
        on_each("half closed", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            // Answers of HTTP/1.1 are begun one after the other, those of HTTP/2 at once.
            let connections: &[&[&str]] = match protocol {
                Protocol::Http1 => &[&["whole"], &["length"], &["chunks"], &["pauses"]],
                Protocol::Http2 => &[&["whole", "length", "chunks", "pauses"]],
            };
            for (paths, is_midway) in connections.iter().flat_map(|paths| [(paths, false), (paths, true)]) {
                let mut client = Asked::new(&server, protocol, paths).await?;
                client.read(if is_midway { LARGE.len() * paths.len() / 4 } else { 0 }).await?;
                client.end_half().await?;
                let all = (paths.len() * LARGE.len(), paths.len());
                assert_eq!(client.rest().await?, all, "{protocol:?}, {half_close:?}, {paths:?}, midway: {is_midway}");
            }
            assert_eq!(drops.reach(8).await, 8);
            assert_eq!(server.shed(), 0);
            server.stop().await
        });
    }
}

/// The first answer was begun, the second was not.
#[test]
fn an_answer_before_one_that_was_not_begun_arrives_whole() {
    on_each("half closed in a pipeline", async || {
        let drops = Drops::default();
        let answered = self::server(HalfClose::Answered, &drops)?;
        let mut client = Asked::half_closed(&answered, Protocol::Http1, &["whole", "chunks", "whole"]).await?;
        client.read(usize::MAX).await?;
        let Asked::Http1(_, answer) = &client else { unreachable!("it speaks HTTP/1.1") };
        assert_eq!(answer.iter().filter(|&&byte| byte == b'x').count(), 3 * LARGE.len());
        let server = server(HalfClose::Gone, &drops)?;
        for first in ["whole", "chunks"] {
            let gone = drops.count();
            let mut client = Asked::half_closed(&server, Protocol::Http1, &[first, "never"]).await?;
            assert_eq!(client.rest().await?, (LARGE.len(), 1), "{first}");
            let count = drops.reach(gone + 2).await;
            assert_eq!(count, gone + 2, "{first}: both handlers are gone; {:?}", server.counters.totals());
        }
        drop(answered);
        server.stop().await
    });
}

/// The end of the client's half is told once: nothing looks at it again and again, and a client that goes away for good
/// is found out.
#[test]
fn a_client_that_goes_away_after_its_half_takes_its_handler_along() {
    if crate::rig::is_skipped(crate::rig::BRIDGE_TAKES) {
        return;
    }
    for (protocol, half_close) in PROTOCOLS.into_iter().flat_map(|protocol| HALF_CLOSES.map(|how| (protocol, how))) {
        on_each("half closed, then reset", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            // What was sent to it and not read makes its close a reset.
            let client = Asked::half_closed(&server, protocol, &["begun"]).await?;
            until("it is answered", || !server.counters.totals().responses_total.is_empty()).await;
            assert_eq!(drops.count(), 0, "{protocol:?}, {half_close:?}: it may still be reading");
            drop(client);
            assert_eq!(drops.reach(1).await, 1, "{protocol:?}, {half_close:?}: it was reset");
            // One that was closed in silence answers the next bytes with a reset.
            let mut client = Asked::half_closed(&server, protocol, &["ticks"]).await?;
            client.read(1).await?;
            drop(client);
            assert_eq!(drops.reach(2).await, 2, "{protocol:?}, {half_close:?}: it was closed");
            server.stop().await
        });
    }
}

/// An hour passes in the simulation only if nothing turns round and round in it. The client of HTTP/2 acknowledges no
/// SETTINGS: it cannot any more.
#[test]
fn a_half_closed_client_may_wait_for_the_rest_of_its_answer() {
    for protocol in PROTOCOLS {
        in_simulation("half closed for an hour", async || {
            let drops = Drops::default();
            let server = server(HalfClose::Gone, &drops)?;
            let begun = now();
            let mut socket = TcpStream::connect(server.address).await?;
            let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &get(1, "/begun")].concat();
            let asks = if matches!(protocol, Protocol::Http1) { pipeline(&["begun"]) } else { hello };
            socket.send_bytes(&asks).await?;
            socket.shutdown_write().await?;
            let mut bytes = Vec::new();
            while let Some(lease) = socket.recv().await? {
                bytes.extend_from_slice(&lease);
            }
            let is_whole = match protocol {
                Protocol::Http1 => bytes.ends_with(b"begun\r\n0\r\n\r\n"),
                Protocol::Http2 => {
                    let frames: Vec<_> = core::iter::from_fn(|| Frame::take_from(&mut bytes)).collect();
                    is_ended(&frames, 1) && bodies(&frames) == b"begun".len()
                }
            };
            assert!(is_whole, "{protocol:?}");
            assert!((now() - begun).as_secs() >= 3_600, "{protocol:?}");
            assert_eq!(drops.count(), 1);
            server.stop().await
        });
    }
}

/// All requests, and then the end of the client's half.
#[test]
fn a_client_that_ends_its_half_gets_its_answers_where_that_is_wanted() {
    for half_close in HALF_CLOSES {
        on_each("half closed before an answer", || Box::pin(half_closes(half_close)));
    }
}

async fn half_closes(half_close: HalfClose) -> Result<()> {
    // Where it is not waited for, its end is noticed long before it is over.
    let pause = Duration::from_millis(if half_close == HalfClose::Gone { 2_000 } else { 5 });
    let handler = move |mut req: Request| async move {
        let body = req.collect().await?;
        if req.path() != "/now" {
            sleep(pause).await;
        }
        Ok::<_, Error>(Response::text(format!("<{} {}>", req.path(), body.len())))
    };
    let slow = b"POST /one HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /two HTTP/1.1\r\nHost: h\r\n\r\n";
    let cut = b"POST /cut HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na";
    let now = b"GET /now HTTP/1.1\r\nHost: h\r\n\r\n";
    let server = serve(Config { half_close, ..Config::default() }, handler)?;
    for at in [1, 30, slow.len() - 20, slow.len()] {
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(&slow[..at]).await?;
        sleep(Duration::from_millis(1)).await;
        client.send_bytes(&slow[at..]).await?;
        client.shutdown_write().await?;
        let answers = read(&mut client, None).await.unwrap_or_default();
        match half_close {
            HalfClose::Answered => {
                assert!(answers.contains("</one 3>HTTP/1.1 200"), "split at {at}: {answers}");
                assert!(answers.ends_with("</two 0>"), "split at {at}: {answers}");
            }
            _ => assert!(!answers.contains("</two 0>"), "split at {at}: {answers}"),
        }
    }
    // A handler that is ready at once is never too late, and half a body is none.
    for (bytes, expected) in [(&now[..], "</now 0>"), (cut, "HTTP/1.1 400 ")] {
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(bytes).await?;
        client.shutdown_write().await?;
        let answers = read(&mut client, None).await?;
        assert!(answers.contains(expected), "{half_close:?}: {answers}");
    }
    server.stop().await
}
