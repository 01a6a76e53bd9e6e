//! What speaks a transport for a client that does not: a bridge before the server.

use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::pin;
use core::task::Poll;

use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Result, spawn};

/// Where clients that know nothing of what is beneath the server reach it: `carry` gets each client, the connection to
/// the server, and what the client has sent already. A PROXY header goes before the transport, as it came, where the
/// server asks for one.
pub(crate) fn bridge<F: Future<Output = Result<()>> + 'static>(
    server: SocketAddr,
    has_header: bool,
    carry: impl Fn(TcpStream, TcpStream, Vec<u8>) -> F + Copy + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    drop(spawn(async move {
        while let Ok((mut client, _peer)) = listener.accept().await {
            // Without room the client sees that it is closed.
            let _no_room = spawn(async move {
                let Ok(mut to) = TcpStream::connect(server).await else { return };
                let first = if has_header { introduce(&mut client, &mut to).await } else { Ok(Vec::new()) };
                if let Ok(first) = first {
                    let _either_is_gone = carry(client, to, first).await;
                }
            });
        }
    })?);
    Ok(address)
}

/// Carries a PROXY header, or a line in its place; gives what came with it.
async fn introduce(client: &mut TcpStream, server: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut came, mut sent) = (Vec::new(), 0);
    while let Some(more) = client.recv().await? {
        came.extend_from_slice(&more);
        let end = header_end(&came);
        let part = end.unwrap_or(came.len());
        server.send_bytes(&came[sent..part]).await?;
        if end.is_some() {
            return Ok(came.split_off(part));
        }
        sent = part;
    }
    server.shutdown_write().await?;
    // Its answer is that it is closed.
    while server.recv().await?.is_some() {}
    Ok(Vec::new())
}

/// Where a header ends, if it does.
fn header_end(came: &[u8]) -> Option<usize> {
    const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let shared = SIGNATURE.len().min(came.len());
    if came[..shared] == SIGNATURE[..shared] {
        let end = 16 + usize::from(u16::from_be_bytes([*came.get(14)?, *came.get(15)?]));
        return (came.len() >= end).then_some(end);
    }
    came.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
}

/// Ready when both are, or one has failed.
pub(crate) async fn both<A, B>(
    one: impl Future<Output = Result<A>>,
    other: impl Future<Output = Result<B>>,
) -> Result<()> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(cx)
        {
            first = Some(done?);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(cx)
        {
            second = Some(done?);
        }
        if first.is_some() && second.is_some() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}
