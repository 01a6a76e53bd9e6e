//! Services beside a NATS server.

use std::process::Command;

use reqwest::{Client, StatusCode};

use crate::client;
use crate::process::{Running, free_address, installed};

pub(crate) fn start_nats(port: u16) -> Option<Running> {
    let mut command = Command::new(installed("nats-server")?);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string()]);
    Some(Running::start_server(&mut command, ([127, 0, 0, 1], port).into()))
}

#[test]
fn questions_are_answered_over_nats() {
    let Some(nats) = start_nats(free_address().port()) else { return };
    let servers = [0, 1].map(|_| Running::start(env!("CARGO_BIN_EXE_nats"), &["--nats", &nats.address.to_string()]));
    client(async {
        let client = Client::new();
        for server in &servers {
            for name in ["you", "me"] {
                let answer = client.get(server.url(&format!("/greet/{name}"))).send().await.expect("an answer");
                assert_eq!(answer.status(), StatusCode::OK);
                assert_eq!(answer.text().await.expect("whole"), format!("hello {name}\n"));
            }
        }
    });
    // One goes: the other still answers.
    let [one, other] = servers;
    one.stop();
    client(async {
        let answer = Client::new().get(other.url("/greet/again")).send().await.expect("an answer");
        assert_eq!(answer.text().await.expect("whole"), "hello again\n");
    });
    drop(nats);
    client(async {
        let answer = Client::new().get(other.url("/greet/nobody")).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
        assert!(answer.text().await.expect("whole").starts_with("NATS: "));
    });
    other.stop();
}
