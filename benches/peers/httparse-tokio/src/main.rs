//! A minimal loop on httparse and one thread of tokio: what a server costs that has nothing but the runtime and the
//! parser.
//!
//! `peer-httparse-tokio ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::io;

use peer_answers::BLOB;
use peer_answers::h1::{Next, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn converse(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut session, mut out) = (Session::new(), Vec::new());
    let mut input = vec![0; INPUT_BYTES];
    let mut len = 0;
    loop {
        let (taken, next) = session.feed(&input[..len], &mut out);
        input.copy_within(taken..len, 0);
        len -= taken;
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
        match next {
            Next::Close => return stream.shutdown().await,
            Next::Send => {}
            Next::Blob(mut left) => {
                while left > 0 {
                    let piece = left.min(BLOB.len() as u64);
                    stream.write_all(&BLOB[..piece as usize]).await?;
                    left -= piece;
                }
            }
            Next::Read => match stream.read(&mut input[len..]).await? {
                0 => return Ok(()),
                read => len += read,
            },
        }
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind(peer_answers::address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            // A peer that goes away is no error of ours.
            let _ended = converse(stream).await;
        });
    }
}

fn main() -> io::Result<()> {
    peer_answers::load();
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(serve())
}

/// A head of the longest kind that is read, and room for a piece of a body.
const INPUT_BYTES: usize = 16 * 1024;
