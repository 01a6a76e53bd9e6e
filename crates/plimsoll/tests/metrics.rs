//! `metrics::handler`: everything is told, with a type, also when nothing else is answered any more.
#![forbid(unsafe_code)]

use std::time::Duration;

use plimsoll::http::{Config, Request, Router, StatusCode, metrics};
use plimsoll::net::TcpStream;
use plimsoll::sleep;
use plimsoll::testing::Client;

#[test]
fn everything_has_its_sample_and_its_type() {
    let client = Client::new(Router::new().get("/", async |_: Request| "ok").get("/metrics", metrics::handler()));
    assert_eq!(client.get("/").send().text(), "ok");
    let answer = client.get("/metrics").send();
    assert_eq!((answer.status(), answer.header("content-type")), (StatusCode::OK, Some(metrics::CONTENT_TYPE)));
    let text = answer.text();
    for sample in [
        "plimsoll_budget_bytes 67108864",
        "plimsoll_responses_total{code=\"200\"} 1",
        "plimsoll_requests_total{protocol=\"h1\"} 2",
        "plimsoll_exchanges_ended_total{how=\"finished\"} 1",
        "plimsoll_leases{class=\"131072\"} 0",
        "plimsoll_released_bytes_total 0",
        "plimsoll_stalls_total 0",
        "plimsoll_long_turns_total{over_ms=\"10\"} 0",
        "plimsoll_turn_ms_max 0",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is missing in\n{text}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().expect("a name");
        assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name} has a type");
    }
    client.finish();
}

/// As many handlers run as may, and another request waits for their end: the metrics do not.
#[test]
fn metrics_are_told_when_nothing_else_is() {
    let slow = async |_: Request| {
        sleep(Duration::from_secs(60)).await;
        "late"
    };
    let config = Config { handlers_in_progress_max: Some(1), ..Config::default() };
    let client = Client::builder().config(config);
    let client = client.serve(Router::new().get("/slow", slow).get("/metrics", metrics::handler()));
    let request = b"GET /slow HTTP/1.1\r\nHost: test\r\n\r\n";
    let slow = client.run(async {
        let mut stream = TcpStream::connect(client.address()).await.expect("the server listens");
        stream.send_bytes(request).await.expect("it takes the request");
        sleep(Duration::from_millis(100)).await;
        stream
    });
    assert_eq!(client.get("/slow").send().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get("/metrics").send().status(), StatusCode::OK);
    drop(slow);
    client.finish();
}
