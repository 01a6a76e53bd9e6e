//! In header blocks of HTTP/2.

use plimsoll_http::Config;
use plimsoll_runtime::Result;

use super::{summed, tell};
use crate::rig::frames::{
    Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, RST_STREAM, block, frame, get, request,
};
use crate::rig::{on_each, serve};

#[test]
fn a_handler_gets_the_trailers_of_its_request_and_of_no_other() {
    on_each("trailers of requests", async || {
        let server = serve(Config::default(), tell)?;
        let mut client = Client::connect(server.address, &[]).await?;
        let trailers = block(&[("sum", "7"), ("kind", "weak")]);
        for (stream, end, expected) in [
            (1, frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers), "[false 3 sum=7,kind=weak Some(\"7\") false]"),
            (3, frame(DATA, END_STREAM, 3, b""), "[false 3  None false]"),
            (5, frame(HEADERS, END_HEADERS | END_STREAM, 5, &[]), "[false 3  None false]"),
        ] {
            client.send(&request(stream, "POST", "/", &[], 0)).await?;
            client.send(&[frame(DATA, 0, stream, b"abc"), end].concat()).await?;
            assert_eq!(String::from_utf8_lossy(&client.body(stream).await?), expected);
        }
        drop(client);
        server.stop().await
    });
}

/// Frames of a stream up to its end.
async fn answer(client: &mut Client, stream: u32) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    while let Some(frame) = client.frame().await? {
        if frame.stream != stream || ![DATA, HEADERS, RST_STREAM].contains(&frame.kind) {
            continue;
        }
        let is_last = frame.kind == RST_STREAM || frame.ends_stream();
        frames.push(frame);
        if is_last {
            break;
        }
    }
    Ok(frames)
}

#[test]
fn an_answer_ends_with_its_trailers() {
    on_each("trailers of answers", async || {
        let server = serve(Config::default(), summed)?;
        let mut client = Client::connect(server.address, &[]).await?;
        for (at, path) in ["/3", "/0", "/50000", "/3?announced"].into_iter().enumerate() {
            let stream = 2 * at as u32 + 1;
            client.send(&get(stream, path)).await?;
            let frames = answer(&mut client, stream).await?;
            let last = frames.last().expect("an answer");
            assert_eq!((last.kind, last.flags), (HEADERS, END_HEADERS | END_STREAM), "{path}: {last:?}");
            let bytes: usize = path[1..].split('?').next().and_then(|bytes| bytes.parse().ok()).expect("a number");
            assert!(last.payload.ends_with(bytes.to_string().as_bytes()), "{last:?}");
            let body: usize = frames.iter().filter(|frame| frame.kind == DATA).map(|data| data.payload.len()).sum();
            assert_eq!((body, frames[0].kind), (bytes, HEADERS), "{path}");
        }
        // A HEAD has none, and what may not come behind a body never leaves.
        client.send(&request(11, "HEAD", "/3", &[], END_STREAM)).await?;
        assert_eq!(answer(&mut client, 11).await?.len(), 1);
        client.send(&request(13, "GET", "/3", &[("x-trailer", "bad")], END_STREAM)).await?;
        let frames = answer(&mut client, 13).await?;
        assert_eq!(frames.last().map(|frame| frame.kind), Some(RST_STREAM), "{frames:?}");
        client.send(&get(15, "/3")).await?;
        assert_eq!(answer(&mut client, 15).await?.len(), 3, "the connection lives");
        drop(client);
        server.stop().await
    });
}
