//! A minimal loop on httparse and one thread of compio, on io_uring.
//!
//! `peer-httparse-compio ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::io;

use compio::buf::{BufResult, IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use peer_answers::BLOB;
use peer_answers::h1::{Next, Session};

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    let (mut session, mut out) = (Session::new(), Vec::new());
    let mut input = Vec::with_capacity(INPUT_BYTES);
    loop {
        let (taken, next) = session.feed(&input, &mut out);
        input.drain(..taken);
        if !out.is_empty() {
            let BufResult(sent, buffer) = stream.write_all(out).await;
            sent?;
            out = buffer;
            out.clear();
        }
        match next {
            Next::Close => return stream.shutdown().await,
            Next::Send => {}
            Next::Blob(mut left) => {
                while left > 0 {
                    let piece = left.min(BLOB.len() as u64);
                    stream.write_all(&BLOB[..piece as usize]).await.0?;
                    left -= piece;
                }
            }
            Next::Read => {
                let len = input.len();
                let BufResult(read, room) = stream.read(input.slice(len..)).await;
                input = room.into_inner();
                if read? == 0 {
                    return Ok(());
                }
            }
        }
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(peer_answers::address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let conversation = async move {
            // A peer that goes away is no error of ours.
            let _ended = converse(stream).await;
        };
        compio::runtime::spawn(conversation).detach();
    }
}

#[compio::main]
async fn main() -> io::Result<()> {
    peer_answers::load();
    serve().await
}

/// A head of the longest kind that is read, and room for a piece of a body.
const INPUT_BYTES: usize = 16 * 1024;
