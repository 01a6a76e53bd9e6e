//! Clients of a hub: WebSockets, and streams of events as text.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

use crate::http2::End;
use crate::rig::frames::{self, DATA, END_HEADERS, END_STREAM, HEADERS, block, frame, window_update};
use crate::rig::websocket::{Client, Got, close, read_head};

/// What carries a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Http1,
    /// A stream of HTTP/2.
    Http2,
}

pub(crate) const BOTH: [Over; 2] = [Over::Http1, Over::Http2];

/// A member with a WebSocket.
pub(crate) enum Socket {
    Connection(Client),
    Stream(End),
}

pub(crate) async fn open(address: SocketAddr, over: Over) -> Result<Socket> {
    open_and_say(address, over, b"").await
}

/// The same, with `early` behind the handshake in the same bytes; on a stream, as soon as that is answered.
pub(crate) async fn open_and_say(address: SocketAddr, over: Over, early: &[u8]) -> Result<Socket> {
    Ok(match over {
        Over::Http1 => Socket::Connection(Client::open_and_say(address, "/ws", early).await?),
        Over::Http2 => {
            let mut end = End::open(address, "/ws").await?;
            end.send(early, 5_000).await?;
            Socket::Stream(end)
        }
    })
}

impl Socket {
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Connection(client) => client.send(bytes).await,
            Self::Stream(end) => end.send(bytes, 5_000).await,
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Got> {
        match self {
            Self::Connection(client) => client.next().await,
            Self::Stream(end) => end.next().await,
        }
    }

    pub(crate) async fn text(&mut self) -> Result<String> {
        match self.next().await? {
            Got::Text(text) => Ok(text),
            other => panic!("a text, not {other:?}"),
        }
    }
}

/// A member is told this code, answers, and then its stream is over.
pub(crate) async fn assert_closed(client: &mut Socket, code: CloseCode) -> Result<()> {
    assert_eq!(client.next().await?, Got::Close(Some(code)));
    // It may have closed first, and be over.
    let _may_be_gone = client.send(&close(code.0)).await;
    assert_eq!(client.next().await?, Got::End);
    Ok(())
}

/// A stream of events.
pub(crate) struct Listener {
    carrier: Carrier,
    body: String,
    pub(crate) ended: bool,
}

enum Carrier {
    /// With what was received and is no whole chunk yet.
    Connection(TcpStream, Vec<u8>),
    Stream(frames::Client),
}

impl Listener {
    pub(crate) async fn open(address: SocketAddr, over: Over) -> Result<Self> {
        let carrier = match over {
            Over::Http1 => {
                let mut stream = TcpStream::connect(address).await?;
                stream.send_static(b"GET /events HTTP/1.1\r\nHost: here\r\n\r\n").await?;
                let (_, input) = read_head(&mut stream, "200").await?;
                Carrier::Connection(stream, input)
            }
            Over::Http2 => {
                let mut client = frames::Client::connect(address, &[]).await?;
                let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/events")];
                client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&fields))).await?;
                assert!(client.next_of(HEADERS).await?.has_status(200));
                Carrier::Stream(client)
            }
        };
        Ok(Self { carrier, body: String::new(), ended: false })
    }

    /// The next event, comments left out; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>> {
        loop {
            while let Some(at) = self.body.find("\n\n") {
                let event: String = self.body.drain(..at + 2).collect();
                if !event.starts_with(':') {
                    return Ok(Some(event));
                }
            }
            if self.ended || !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// Reads on; `false` when the connection ended first.
    async fn read(&mut self) -> Result<bool> {
        let (part, ended) = match &mut self.carrier {
            Carrier::Connection(stream, input) => {
                let Some(chunk) = take_chunk(input) else {
                    return Ok(match timeout(Duration::from_secs(300), stream.recv()).await? {
                        Ok(Some(lease)) => {
                            input.extend_from_slice(&lease);
                            true
                        }
                        Ok(None) | Err(_) => false,
                    });
                };
                let ended = chunk.is_empty();
                (chunk, ended)
            }
            Carrier::Stream(client) => {
                let frame = client.next_of(DATA).await?;
                if !frame.payload.is_empty() {
                    let by = frame.payload.len() as u32;
                    client.send(&[window_update(0, by), window_update(1, by)].concat()).await?;
                }
                let ended = frame.ends_stream();
                (frame.payload, ended)
            }
        };
        self.body.push_str(std::str::from_utf8(&part).expect("UTF-8"));
        self.ended = ended;
        Ok(true)
    }
}

/// The first chunk of what was received, if all of it is there; the last one is empty.
fn take_chunk(input: &mut Vec<u8>) -> Option<Vec<u8>> {
    let line = input.windows(2).position(|window| window == b"\r\n")?;
    let size = std::str::from_utf8(&input[..line]).expect("a size");
    let size = usize::from_str_radix(size, 16).expect("a size");
    let end = line + 2 + size + 2;
    if input.len() < end {
        return None;
    }
    let chunk = input[line + 2..end - 2].to_vec();
    input.drain(..end);
    Some(chunk)
}
