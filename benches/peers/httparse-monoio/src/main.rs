//! A minimal loop on httparse and one thread of monoio, on io_uring.
//!
//! `peer-httparse-monoio ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::io;

use monoio::buf::{IoBufMut, SliceMut};
use monoio::io::{AsyncReadRent, AsyncWriteRent, AsyncWriteRentExt};
use monoio::net::{ListenerOpts, TcpListener, TcpStream};
use peer_answers::BLOB;
use peer_answers::h1::{Next, Session};

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
            let (sent, buffer) = stream.write_all(out).await;
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
                let (read, room): (_, SliceMut<Vec<u8>>) = stream.read(input.slice_mut(len..INPUT_BYTES)).await;
                input = room.into_inner();
                match read? {
                    0 => return Ok(()),
                    read => len += read,
                }
            }
        }
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind_with_config(peer_answers::address(), &ListenerOpts::new().backlog(4096))?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        monoio::spawn(async move {
            // A peer that goes away is no error of ours.
            let _ended = converse(stream).await;
        });
    }
}

fn main() -> io::Result<()> {
    peer_answers::load();
    monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().build()?.block_on(serve())
}

/// A head of the longest kind that is read, and room for a piece of a body.
const INPUT_BYTES: usize = 16 * 1024;
