//! A service that asks another one.

use reqwest::{Client, StatusCode};

use crate::client;
use crate::process::{Running, free_address};

#[test]
fn requests_are_forwarded() {
    let upstream = Running::start(env!("CARGO_BIN_EXE_axum"), &[]);
    let program = env!("CARGO_BIN_EXE_reqwest");
    let server = Running::start(program, &["--upstream", &upstream.address.to_string()]);
    client(async {
        let client = Client::new();
        let answer = client.get(server.url("/double/4")).send().await.expect("an answer");
        assert_eq!((answer.status(), answer.text().await.expect("whole").as_str()), (StatusCode::OK, "8"));
        let part = "x".repeat(1 << 20);
        let form =
            format!("--cut\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\n{part}\r\n--cut--\r\n");
        let upload = client.post(server.url("/upload")).header("content-type", "multipart/form-data; boundary=cut");
        let answer = upload.body(form).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("whole"), "a 1048576\n");
        assert_eq!(client.get(server.url("/none")).send().await.expect("an answer").status(), StatusCode::NOT_FOUND);
    });
    let lonely = Running::start(program, &["--upstream", &free_address().to_string()]);
    client(async {
        let answer = Client::new().get(lonely.url("/")).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        assert!(answer.text().await.expect("whole").starts_with("upstream: "));
    });
    [upstream, server, lonely].into_iter().for_each(Running::stop);
}
