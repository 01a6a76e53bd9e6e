//! WebSockets on streams of HTTP/2 (RFC 8441), with a client of our own, on every driver.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{Config, Error, OriginCheck, Request, Response, Shed, WebSocketConfig};
use plimsoll_runtime::{Result, now, sleep};

use crate::rig::frames::{
    Client, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, WINDOW_UPDATE, block, cancel, frame, window_update,
};
use crate::rig::memory::fill_but;
use crate::rig::websocket::{Got, Inbox, close, decoder, text};
use crate::rig::{in_simulation, on_each, serve};

/// Echoes for pages of this host, see [`crate::rig::websocket::echo`].
async fn echo(request: Request) -> Result<Response, Error> {
    let config = WebSocketConfig { origin: OriginCheck::SameHost, ..WebSocketConfig::default() };
    crate::rig::websocket::echo(&request, &config)
}

fn connect(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", path),
    ];
    fields.extend(more);
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

const VERSION: (&str, &str) = ("sec-websocket-version", "13");

/// A message, or what goes between two, in one frame.
fn message(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    crate::rig::websocket::frame(true, opcode, payload)
}

/// The client's end of one stream.
pub(super) struct End {
    client: Client,
    stream: u32,
    inbox: Inbox,
    ended: bool,
    /// Bytes that the server allows: on the stream and on the connection.
    windows: [usize; 2],
}

impl End {
    pub(super) async fn open(address: core::net::SocketAddr, path: &str) -> Result<Self> {
        let mut client = Client::connect(address, &[]).await?;
        client.send(&connect(1, path, &[VERSION])).await?;
        let head = client.next_of(HEADERS).await?;
        assert_eq!((head.stream, head.has_status(200), head.ends_stream()), (1, true, false), "{head:?}");
        let inbox = Inbox::new(decoder(), Vec::new());
        Ok(Self { client, stream: 1, inbox, ended: false, windows: [16_384, 65_535] })
    }

    /// In frames of HTTP/2 of so many bytes.
    pub(super) async fn send(&mut self, bytes: &[u8], piece: usize) -> Result<()> {
        for part in bytes.chunks(piece) {
            while self.windows.into_iter().any(|window| window < part.len()) {
                self.read().await?;
            }
            self.windows = self.windows.map(|window| window - part.len());
            self.client.send(&frame(DATA, 0, self.stream, part)).await?;
        }
        Ok(())
    }

    /// The same in one frame, of bytes that live for ever: they need no memory of the line.
    pub(super) async fn send_static(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(self.windows.into_iter().all(|window| window >= bytes.len()), "the windows are open");
        self.windows = self.windows.map(|window| window - bytes.len());
        self.client.socket.send_static(Vec::leak(frame(DATA, 0, self.stream, bytes))).await
    }

    /// Resets its stream; the connection stays.
    pub(super) async fn reset(&mut self) -> Result<()> {
        self.client.send(&cancel(self.stream)).await
    }

    /// Says that nothing more is asked for on the connection, which goes on.
    pub(super) async fn go_away(&mut self) -> Result<()> {
        self.client.send(&frame(GOAWAY, 0, 0, &[0; 8])).await
    }

    /// Takes one frame of HTTP/2.
    async fn read(&mut self) -> Result<()> {
        let frame = self.client.frame().await?.expect("the connection stays open");
        match frame.kind {
            DATA => {
                assert_eq!(frame.stream, self.stream);
                self.inbox.receive(&frame.payload);
                self.ended = frame.ends_stream();
                if !frame.payload.is_empty() {
                    let by = frame.payload.len() as u32;
                    self.client.send(&window_update(0, by)).await?;
                    if !self.ended {
                        self.client.send(&window_update(self.stream, by)).await?;
                    }
                }
            }
            WINDOW_UPDATE => {
                self.windows[usize::from(frame.stream == 0)] += frame.increment() as usize;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<Got> {
        loop {
            if let Some(got) = self.inbox.next() {
                return Ok(got);
            }
            if self.ended {
                return Ok(Got::End);
            }
            self.read().await?;
        }
    }
}

#[test]
fn messages_come_back_on_a_stream() {
    on_each("echo on a stream", async || {
        let running = serve(Config::default(), echo)?;
        for path in ["/", "/called"] {
            let mut end = End::open(running.address, path).await?;
            for bytes in [0, 1, 125, 126, 4_000, 20_000, 66_000, 300_000] {
                let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                let frames = message(Opcode::Binary, &content);
                end.send(&frames, 5_000).await?;
                assert_eq!(end.next().await?, Got::Binary(content), "{path}: {bytes} bytes");
            }
            // A byte at a time, with a ping, beside another request on the same connection.
            let frames = [message(Opcode::Ping, b"there?"), text("hé")].concat();
            end.send(&frames, 1).await?;
            assert_eq!(end.next().await?, Got::Pong(b"there?".to_vec()));
            assert_eq!(end.next().await?, Got::Text("hé".into()));
            end.send(&close(4_000), 100).await?;
            assert_eq!(end.next().await?, Got::Close(Some(CloseCode(4_000))));
            assert_eq!(end.next().await?, Got::End);
            end.client.send(&frame(DATA, END_STREAM, 1, b"")).await?;
        }
        assert_eq!(running.counters.totals().websockets_total, 2);
        running.stop().await
    });
}

#[test]
fn what_is_no_handshake_is_told_so() {
    on_each("refusals on a stream", async || {
        let running = serve(Config::default(), echo)?;
        let mut client = Client::connect(running.address, &[]).await?;
        let evil = ("origin", "http://evil.example");
        type Case<'a> = (&'a [(&'a str, &'a str)], u16);
        let cases: [Case<'_>; 3] = [(&[], 400), (&[("sec-websocket-version", "8")], 400), (&[VERSION, evil], 403)];
        for (at, (fields, status)) in cases.into_iter().enumerate() {
            client.send(&connect(2 * at as u32 + 1, "/", fields)).await?;
            let head = client.next_of(HEADERS).await?;
            assert!(head.has_status(status), "{head:?}");
        }
        drop(client);
        running.stop().await
    });
}

/// The time for a close is not the peer's to stretch: what it still says does not begin it anew.
#[test]
fn a_peer_that_goes_on_talking_does_not_put_off_the_close() {
    in_simulation("a close that is not answered", async || {
        let closed = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&closed);
        let running = serve(Config::default(), move |request: Request| {
            let closed = Arc::clone(&theirs);
            async move {
                request.upgrade_websocket(&WebSocketConfig::default(), |socket| async move {
                    let _not_answered = socket.close(CloseCode(4_000), "").await;
                    closed.store(true, Ordering::Relaxed);
                })
            }
        })?;
        let mut end = End::open(running.address, "/").await?;
        assert_eq!(end.next().await?, Got::Close(Some(CloseCode(4_000))));
        let start = now();
        while !closed.load(Ordering::Relaxed) {
            assert!(now().since(start) < 4 * WebSocketConfig::default().close_timeout, "it is put off for ever");
            let _late = end.client.send(&frame(DATA, 0, 1, &message(Opcode::Binary, b"m"))).await;
            sleep(Duration::from_secs(1)).await;
        }
        running.stop().await
    });
}

const LONG: usize = 100_000;

/// Sends the first part of a long message, for all of which there is room after so long; what is left of it.
async fn say_too_much(end: &mut End, time: Duration) -> Result<Vec<u8>> {
    let mut bytes = message(Opcode::Binary, &[b'm'; LONG]);
    // While memory is short windows are of 4 KiB.
    let rest = bytes.split_off(3_000);
    let held = fill_but(&[16 * 1_024; 3]);
    end.send_static(&bytes).await?;
    sleep(time).await;
    drop(held);
    Ok(rest)
}

#[test]
fn a_message_on_a_stream_waits_for_memory() {
    in_simulation("a message on a stream at the line", async || {
        let running = serve(Config::default(), echo)?;
        for path in ["/", "/called"] {
            let (mut end, start, time) = (End::open(running.address, path).await?, now(), Duration::from_secs(4));
            let rest = say_too_much(&mut end, time).await?;
            end.send(&rest, 2_000).await?;
            assert_eq!(end.next().await?, Got::Binary(vec![b'm'; LONG]), "{path}");
            assert!(now().since(start) < time + Duration::from_secs(1), "{path}: it goes on when there is room");
            // What comes then waits for nothing.
            end.send(&message(Opcode::Binary, b"more"), 100).await?;
            assert_eq!(end.next().await?, Got::Binary(b"more".to_vec()), "{path}");
        }
        assert_eq!(running.shed(), 0);
        running.stop().await
    });
}

#[test]
fn a_message_on_a_stream_that_waits_for_too_long_ends_it_with_a_word() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    in_simulation("a message on a stream at the line, for too long", async || {
        let config = Config { memory_timeout: Duration::from_secs(1), ..Config::default() };
        let running = serve(config, echo)?;
        for (path, ends) in [("/", 1), ("/called", 2)] {
            let mut end = End::open(running.address, path).await?;
            let _rest = say_too_much(&mut end, Duration::from_secs(4)).await?;
            assert_eq!(end.next().await?, Got::Close(Some(CloseCode::TRY_LATER)), "{path}");
            assert_eq!(end.next().await?, Got::End, "{path}");
            assert_eq!(running.counters.totals().shed_total[Shed::Body as usize], ends, "{path}: it is counted");
        }
        running.stop().await
    });
}

/// Also where its connection has no place for what came, and waits with it: the others on it do not end.
#[test]
fn a_stream_whose_bytes_found_no_place_for_too_long_ends_with_a_word() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    in_simulation("bytes of a stream at the line, for too long", async || {
        let config = Config { memory_timeout: Duration::from_secs(1), progress_reserve_bytes: 0, ..Config::default() };
        let running = serve(config, echo)?;
        for (path, ends) in [("/", 1), ("/called", 2)] {
            let mut end = End::open(running.address, path).await?;
            // For what is received at a time.
            let held = fill_but(&[1_024]);
            // The level is known.
            sleep(Duration::from_millis(20)).await;
            end.send_static(&message(Opcode::Binary, &[b'm'; 900])).await?;
            sleep(Duration::from_secs(4)).await;
            drop(held);
            assert_eq!(end.next().await?, Got::Close(Some(CloseCode::TRY_LATER)), "{path}");
            assert_eq!(end.next().await?, Got::End, "{path}");
            assert_eq!(running.counters.totals().shed_total[Shed::Body as usize], ends, "{path}: it is counted");
            let other = frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&GET));
            end.client.send(&other).await?;
            assert_eq!(end.client.next_of(HEADERS).await?.stream, 3, "{path}: the connection goes on");
        }
        running.stop().await
    });
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")];
