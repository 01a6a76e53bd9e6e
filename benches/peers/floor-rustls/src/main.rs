//! The floor of a handshake: rustls over a blocking socket, one connection after the other, on one thread.
//!
//! `floor-rustls ADDR CERT KEY`; prints `listening on https://ADDR` when it is ready. Each connection is accepted,
//! shaken hands with, given one answer and closed. It reads no request but to its blank line.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

fn serve(stream: TcpStream, config: &Arc<ServerConfig>, answer: &[u8]) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    // One that says nothing would stop all others.
    stream.set_read_timeout(Some(WAIT_MAX))?;
    let mut stream = StreamOwned::new(ServerConnection::new(config.clone())?, stream);
    let mut head = Vec::new();
    let mut room = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut room)? {
            0 => return Ok(()),
            _ if head.len() > room.len() => return Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            len => head.extend_from_slice(&room[..len]),
        }
    }
    stream.write_all(answer)?;
    // The client ends the connection, so that its address is not kept for a minute here.
    while stream.read(&mut room).is_ok_and(|len| len > 0) {}
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let [address, certificate, key] = peer_secured::arguments()?;
    let config = Arc::new(peer_secured::config(&certificate, &key, &["http/1.1"])?);
    let answer = peer_answers::fixed("/pipeline").ok_or("no answer")?;
    let listener = TcpListener::bind(address)?;
    println!("listening on https://{}", listener.local_addr()?);
    loop {
        let Ok((stream, _)) = listener.accept() else { continue };
        // A peer that goes away is no error of ours.
        let _ended = serve(stream, &config, &answer);
    }
}

const WAIT_MAX: Duration = Duration::from_secs(1);
