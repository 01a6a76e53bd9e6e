//! A service of axum and its clients: reqwest, and tungstenite for the WebSocket.

use reqwest::{Client, StatusCode};
use tungstenite::Message;

use crate::client;
use crate::process::{Folder, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_axum");

async fn text(client: &Client, url: String) -> (StatusCode, String) {
    let answer = client.get(url).send().await.expect("an answer");
    (answer.status(), answer.text().await.expect("a whole body"))
}

#[test]
fn routes_uploads_and_files() {
    let folder = Folder::new("axum");
    let page = "0123456789".repeat(20_000);
    std::fs::write(folder.path().join("page.txt"), &page).expect("there is room");
    let server = Running::start(PROGRAM, &["--files", folder.path().to_str().expect("text")]);
    client(async {
        let client = Client::new();
        for visits in 1..=3 {
            let (status, body) = text(&client, server.url("/")).await;
            assert_eq!((status, body), (StatusCode::OK, format!(r#"{{"hello":"127.0.0.1","visits":{visits}}}"#)));
        }
        assert_eq!(text(&client, server.url("/double/21")).await, (StatusCode::OK, "42".to_owned()));
        assert_eq!(text(&client, server.url("/double/4000000000")).await.0, StatusCode::BAD_REQUEST);
        assert_eq!(text(&client, server.url("/double/half")).await.0, StatusCode::BAD_REQUEST);
        assert_eq!(text(&client, server.url("/files/page.txt")).await, (StatusCode::OK, page.clone()));
        assert_eq!(text(&client, server.url("/files/none.txt")).await.0, StatusCode::NOT_FOUND);
        let part = client.get(server.url("/files/page.txt")).header("range", "bytes=5-9").send().await.expect("a part");
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(part.text().await.expect("whole"), "56789");
        let form = format!(
            "--cut\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.txt\"\r\n\r\n{page}\r\n--cut\r\n\
            Content-Disposition: form-data; name=\"b\"; filename=\"b.txt\"\r\n\r\nshort\r\n--cut--\r\n"
        );
        let upload = client.post(server.url("/upload")).header("content-type", "multipart/form-data; boundary=cut");
        let answer = upload.body(form).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("whole"), "a.txt 200000\nb.txt 5\n");
        let whole = "x".repeat(3 << 20);
        let refused = client.post(server.url("/upload")).header("content-type", "multipart/form-data; boundary=cut");
        let form = format!("--cut\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{whole}\r\n--cut--\r\n");
        let refused = refused.body(form).send().await.expect("an answer");
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE, "axum's own limit of 2 MB");
    });
    server.stop();
}

#[test]
fn events_have_keep_alives_between() {
    let server = Running::start(PROGRAM, &["--tick-ms", "20"]);
    client(async {
        let mut answer = Client::new().get(server.url("/events")).send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut seen = String::new();
        while !seen.contains("data: 3\n\n") {
            let chunk = answer.chunk().await.expect("no failure").expect("it goes on");
            seen.push_str(std::str::from_utf8(&chunk).expect("text"));
        }
        let events: Vec<&str> = seen.split("\n\n").filter(|event| event.starts_with("data:")).collect();
        assert_eq!(events, ["data: 0", "data: 1", "data: 2", "data: 3"]);
        assert!(seen.contains("\n\n:\n\n"), "keep-alives: {seen:?}");
    });
    server.stop();
}

#[test]
fn websockets_echo() {
    let server = Running::start(PROGRAM, &[]);
    let (mut socket, answer) = tungstenite::client(
        format!("ws://{}/echo", server.address),
        std::net::TcpStream::connect(server.address).expect("it listens"),
    )
    .expect("a handshake");
    assert_eq!(answer.status(), 101);
    for message in [Message::text("hello"), Message::binary(vec![7; 70_000])] {
        socket.send(message.clone()).expect("it goes out");
        assert_eq!(socket.read().expect("an echo"), message);
    }
    socket.close(None).expect("it goes out");
    client(async {
        let answer = Client::new().get(server.url("/echo")).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED);
    });
    server.stop();
}
