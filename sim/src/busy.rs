//! Clients that ask again and again on a connection that is kept, while the server stops: each request is answered.

use core::time::Duration;

use plimsoll::net::Stream;
use plimsoll::{sleep, timeout};

use crate::dial::Dial;
use crate::oracle::{Seen, Verdict};
use crate::plan::Rng;
use crate::service::body;

/// How a client asks: with its own pauses, for answers of its own size.
pub(crate) struct Plan {
    rng: Rng,
    /// At most: less than the server waits for what is on its way at its stop.
    pause_max: Duration,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let pause_max = Duration::from_millis(rng.pick(&[1, 20, 500]));
        Self { rng: Rng::new(rng.below(u64::MAX)), pause_max }
    }
}

/// Asks until it is told that an answer was the last, and connects anew until nobody listens. How many bytes were
/// received.
///
/// # Panics
///
/// When a request that was sent on a connection is not answered, or a connection does not end in order.
pub(crate) async fn client(dial: Dial, mut plan: Plan) -> (usize, Verdict) {
    let mut received_bytes = 0;
    while let Some(mut stream) = dial.connect(&mut Seen::default()).await {
        loop {
            sleep(Duration::from_micros(plan.rng.below(plan.pause_max.as_micros() as u64 + 1))).await;
            let bytes = plan.rng.below(3_000) as usize;
            let kind = plan.rng.pick(&["/text/0", "/text/2", "/length/700"]);
            let request = format!("GET {kind}/{bytes} HTTP/1.1\r\nHost: h\r\n\r\n");
            stream.send_bytes(request.as_bytes()).await.expect("the connection is there");
            let (head, received) = answer(&mut stream, bytes).await;
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(received == body(bytes), "{kind}/{bytes}: another body");
            received_bytes += head.len() + received.len();
            if head.contains("\r\nConnection: close\r\n") {
                break;
            }
        }
        let end = timeout(Duration::from_secs(20), stream.recv()).await.expect("it ends");
        assert!(matches!(end, Ok(None)), "the end is in order: {end:?}");
    }
    (received_bytes, Verdict::Whole)
}

/// The head of an answer, and its body of so many bytes.
async fn answer(stream: &mut Stream, bytes: usize) -> (String, Vec<u8>) {
    let mut received = Vec::new();
    loop {
        let head_bytes = received.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head_bytes) = head_bytes.filter(|head_bytes| received.len() >= head_bytes + bytes) {
            let body = received.split_off(head_bytes);
            return (String::from_utf8_lossy(&received).into_owned(), body);
        }
        let more = timeout(Duration::from_secs(20), stream.recv()).await.expect("an answer comes");
        match more {
            Ok(Some(lease)) => received.extend_from_slice(&lease),
            other => panic!("a request was lost behind {} bytes of an answer: {other:?}", received.len()),
        }
    }
}
