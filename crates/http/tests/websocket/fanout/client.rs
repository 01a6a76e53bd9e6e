//! Clients of a hub: WebSockets, and streams of events as text.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::codec::ws::CloseCode;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

use crate::rig::websocket::{Client, Got, read_head};

/// A member with a WebSocket.
pub(crate) async fn open(address: SocketAddr) -> Result<Client> {
    Client::open(address, "/ws").await
}

/// The same, with `early` behind the handshake in the same bytes.
pub(crate) async fn open_and_say(address: SocketAddr, early: &[u8]) -> Result<Client> {
    Client::open_and_say(address, "/ws", early).await
}

/// A member is told this code, and then its stream is over: with a reset when it had said more than was read.
pub(crate) async fn assert_closed(client: &mut Client, code: CloseCode) -> Result<()> {
    let (told, end) = (client.next().await?, client.next().await?);
    assert!(told == Got::Close(Some(code)) && end.is_over(), "{told:?} and {end:?}, not {code:?} and the end");
    Ok(())
}

/// A stream of events.
pub(crate) struct Listener {
    stream: TcpStream,
    input: Vec<u8>,
    body: String,
    pub(crate) ended: bool,
}

impl Listener {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.send_static(b"GET /events HTTP/1.1\r\nHost: here\r\n\r\n").await?;
        let (_, input) = read_head(&mut stream, "200").await?;
        Ok(Self { stream, input, body: String::new(), ended: false })
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
            if self.ended {
                return Ok(None);
            }
            let Some(line) = self.input.windows(2).position(|window| window == b"\r\n") else {
                match timeout(Duration::from_secs(300), self.stream.recv()).await? {
                    Ok(Some(lease)) => self.input.extend_from_slice(&lease),
                    Ok(None) | Err(_) => return Ok(None),
                }
                continue;
            };
            let size = std::str::from_utf8(&self.input[..line]).expect("a size");
            let size = usize::from_str_radix(size, 16).expect("a size");
            let end = line + 2 + size + 2;
            if self.input.len() < end {
                match self.stream.recv().await {
                    Ok(Some(lease)) => self.input.extend_from_slice(&lease),
                    Ok(None) | Err(_) => return Ok(None),
                }
                continue;
            }
            self.body.push_str(std::str::from_utf8(&self.input[line + 2..end - 2]).expect("UTF-8"));
            self.input.drain(..end);
            self.ended = size == 0;
        }
    }
}
