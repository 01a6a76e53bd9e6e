//! Files as answers where everything goes wrong: a file comes whole, or its client can tell that it did not.
#![forbid(unsafe_code)]
#![cfg(feature = "router")]

use std::time::Duration;

use plimsoll::fs::OpenOptions;
use plimsoll::http::{Router, Server};
use plimsoll::net::TcpStream;
use plimsoll::{Kind, Result, Spawner, sleep, spawn, timeout};

const PATH: &str = "/pages/long.txt";

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|number| format!("{number:05} ").into_bytes()).collect()
}

/// Writes the file, however often that fails.
async fn write(bytes: &[u8]) {
    let mut written = 0;
    while written < bytes.len() {
        let piece = &bytes[written..bytes.len().min(written + 16_384)];
        let wrote = async {
            let file = OpenOptions::new().write(true).create(true).open("/long.txt").await?;
            let lease = plimsoll::pool().try_copy(piece, Kind::Buffers)?;
            Ok::<_, plimsoll::Error>(file.write_at(lease, written as u64).await?.0)
        };
        match wrote.await {
            Ok(bytes) => written += bytes,
            Err(_fault) => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// The body of an answer, if it came whole.
async fn fetch(address: std::net::SocketAddr) -> Result<Option<Vec<u8>>> {
    let mut client = TcpStream::connect(address).await?;
    client.send_bytes(format!("GET {PATH} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    while let Some(lease) = client.recv().await? {
        answer.extend_from_slice(&lease);
    }
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let body = answer.split_off(head + 4);
    let head = String::from_utf8(answer).expect("a head is text");
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    Ok((head.starts_with("HTTP/1.1 200 ") && head.contains(&length)).then_some(body))
}

#[plimsoll::test(faults = "wild", worlds = 30, memory = "16MiB")]
async fn a_file_comes_whole_or_its_client_can_tell() -> Result<()> {
    let text = text();
    write(&text).await;
    let Ok(server) = Server::bind("127.0.0.1:0") else { return Ok(()) };
    let address = server.local_addr();
    let serving = spawn(server.serve(Router::new().files("/pages", "/")))?;
    let mut whole = 0;
    for _ in 0..12 {
        if let Ok(Ok(Some(body))) = timeout(Duration::from_secs(60), fetch(address)).await {
            assert!(body == text, "{} bytes that are not the file", body.len());
            whole += 1;
        }
    }
    assert!(whole > 0, "the world is too wild to show anything");
    Spawner::current().stop();
    serving.await.expect("it does not panic")
}
