//! Every row of the table of requests and answers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, Client};
use crate::process::{Arena, drivers};

/// Runs `check` with a connection to a server of each driver, and ends the server well.
fn on_each_driver(check: impl Fn(&mut Client)) {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "2"]);
        let mut client = Client::connect(arena.address);
        check(&mut client);
        drop(client);
        arena.stop();
    }
}

#[track_caller]
fn is_text(answer: &Answer, text: &str) {
    assert_eq!((answer.status, answer.text()), (200, text));
    assert!(answer.field("content-type").is_some_and(|kind| kind.starts_with("text/plain")), "{answer:?}");
}

#[test]
fn the_index_is_a_page() {
    on_each_driver(|client| {
        for answer in [client.get("/"), client.request("POST", "/", "", b"ignored"), client.get("/?any=query")] {
            assert_eq!(answer.status, 200);
            assert!(answer.body.len() >= 1_024, "{} bytes", answer.body.len());
        }
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    on_each_driver(|client| {
        is_text(&client.get("/pipeline"), "ok");
        let mut requests = String::new();
        for at in 0..64 {
            requests.push_str(&format!("GET /baseline2?a={at} HTTP/1.1\r\nHost: arena\r\n\r\n"));
            requests.push_str("GET /pipeline HTTP/1.1\r\nHost: arena\r\n\r\n");
        }
        client.send(requests.as_bytes());
        for at in 0..64 {
            is_text(&client.answer("GET"), &at.to_string());
            is_text(&client.answer("GET"), "ok");
        }
    });
}

#[test]
fn baseline_sums_integers() {
    on_each_driver(|client| {
        for path in ["/baseline11", "/baseline2"] {
            let mut get = |query: &str| client.get(&format!("{path}{query}")).text().to_owned();
            assert_eq!(get(""), "0");
            assert_eq!(get("?a=1&b=2"), "3");
            assert_eq!(get("?a=1&b=2&c=three&d=&e=1.5&f&g=0x10"), "3", "other values are ignored");
            assert_eq!(get("?a=-5&b=%31%30"), "5");
            assert_eq!(get("?a=9223372036854775807&b=1"), "-9223372036854775808", "it wraps");
            assert_eq!(get("?a=9223372036854775808&b=1"), "1", "no integer of 64 bits");
            is_text(&client.request("POST", &format!("{path}?a=1&b=2"), "", b"20"), "23");
            is_text(&client.request("POST", path, "", b"-7\n"), "-7");
            is_text(&client.request("POST", &format!("{path}?a=4"), "", b"none"), "4");
            is_text(&client.request("POST", &format!("{path}?a=4"), "", b""), "4");
            is_text(&client.request_chunked("POST", &format!("{path}?a=4"), "", &[b"1", b"2", b"3"]), "127");
        }
    });
}

#[test]
fn json_serves_items_with_totals() {
    on_each_driver(|client| {
        for (count, target, factor) in
            [(0, "/json/0", 1), (1, "/json/1?m=3", 3), (7, "/json/7?x=1&m=-2", -2), (50, "/json/50?m=x", 1)]
        {
            let answer = client.get(target);
            assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
            let json: Value = serde_json::from_slice(&answer.body).expect("JSON");
            let keys: Vec<_> = json.as_object().expect("an object").keys().collect();
            assert_eq!(keys.len(), 2);
            assert_eq!(json["count"], count);
            let items = json["items"].as_array().expect("items");
            assert_eq!(items.len(), count);
            for (at, item) in items.iter().enumerate() {
                assert_eq!(item.as_object().map(|fields| fields.len()), Some(9));
                assert_eq!(item["id"], at + 1);
                assert!(item["name"].is_string() && item["category"].is_string() && item["active"].is_boolean());
                assert!(item["tags"].as_array().is_some_and(|tags| tags.iter().all(Value::is_string)));
                assert!(item["rating"]["score"].is_i64() && item["rating"]["count"].is_i64());
                let of = |name: &str| item[name].as_i64().expect("an integer");
                assert_eq!(of("total"), of("price") * of("quantity") * factor);
            }
        }
        assert_eq!(client.get("/json/2").body, client.get("/json/2?m=1").body);
        for target in ["/json/51", "/json/-1", "/json/", "/json", "/json/x", "/json/1/2", "/json/+1"] {
            assert_eq!(client.get(target).status, 404, "{target}");
        }
    });
}

#[test]
fn upload_counts_what_it_reads() {
    let body = vec![b'u'; 5_000_000];
    on_each_driver(|client| {
        is_text(&client.request("POST", "/upload", "", b""), "0");
        is_text(&client.request("POST", "/upload", "", &body), "5000000");
        let chunks: Vec<&[u8]> = body.chunks(70_001).collect();
        is_text(&client.request_chunked("POST", "/upload", "", &chunks), "5000000");
        is_text(&client.request_chunked("POST", "/upload", "", &[]), "0");
    });
}

#[test]
fn echo_sends_the_body_back() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    on_each_driver(|client| {
        let answer = client.request("POST", "/echo", "Content-Type: x/y; z=1\r\n", &body);
        assert_eq!((answer.status, answer.field("content-type")), (200, Some("x/y; z=1")));
        assert!(answer.body == body, "a known length");
        let chunks: Vec<&[u8]> = body.chunks(33_333).collect();
        let answer = client.request_chunked("POST", "/echo", "Content-Type: a/b\r\n", &chunks);
        assert_eq!((answer.status, answer.field("content-type")), (200, Some("a/b")));
        assert!(answer.body == body, "an unknown length");
        assert_eq!(client.request("POST", "/echo", "", b"").body, b"");
        assert_eq!(client.request_chunked("POST", "/echo", "", &[b"a", b"bc"]).body, b"abc");
    });
}

#[test]
fn echo_and_upload_ask_for_the_body_that_a_client_holds_back() {
    on_each_driver(|client| {
        for (path, expected) in [("/echo", "held back"), ("/upload", "9")] {
            client.send(
                format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
                    .as_bytes(),
            );
            assert_eq!(client.answer("POST").status, 100);
            client.send(b"held back");
            let answer = client.answer("POST");
            assert_eq!((answer.status, answer.text()), (200, expected));
        }
    });
}

#[test]
fn blobs_are_as_long_as_asked() {
    on_each_driver(|client| {
        for bytes in [0, 1, 65_535, 65_536, 65_537, 10_000_000] {
            let answer = client.get(&format!("/blob/{bytes}"));
            assert_eq!((answer.status, answer.body.len()), (200, bytes));
        }
        let answer = client.request("HEAD", "/blob/1099511627776", "", b"");
        assert_eq!((answer.status, answer.field("content-length")), (200, Some("1099511627776")));
        for target in ["/blob/1099511627777", "/blob/-1", "/blob/", "/blob/99999999999999999999"] {
            assert_eq!(client.get(target).status, 404, "{target}");
        }
        client.send(b"GET /blob/1099511627776 HTTP/1.1\r\nHost: arena\r\n\r\n");
        while !client.line().is_empty() {}
        client.skip(20_000_000);
    });
}

#[test]
fn delays_take_their_time() {
    on_each_driver(|client| {
        let begun = Instant::now();
        is_text(&client.get("/delay/200"), "ok");
        assert!(begun.elapsed() >= Duration::from_millis(200), "never early");
        is_text(&client.get("/delay/0"), "ok");
        assert_eq!(client.get("/delay/60001").status, 404);
        assert_eq!(client.get("/delay/x").status, 404);
    });
}

#[test]
fn headers_are_told() {
    on_each_driver(|client| {
        is_text(
            &client.request("GET", "/headers", "X-One: 1\r\nx-two:  2 \r\nX-One: again\r\n", b""),
            "Host: arena\nX-One: 1\nx-two: 2\nX-One: again\n",
        );
    });
}

#[test]
fn a_websocket_needs_an_upgrade() {
    on_each_driver(|client| {
        let answer = client.get("/ws");
        assert_eq!((answer.status, answer.field("upgrade")), (426, Some("websocket")));
        is_text(&client.get("/pipeline"), "ok");
    });
}

#[test]
fn head_is_get_without_the_body() {
    on_each_driver(|client| {
        for target in [
            "/",
            "/pipeline",
            "/baseline11?a=1",
            "/json/5?m=2",
            "/blob/100000",
            "/delay/1",
            "/headers",
            "/ws",
            "/nowhere",
        ] {
            let (get, head) = (client.get(target), client.request("HEAD", target, "", b""));
            let without_date =
                |answer: &Answer| answer.fields.iter().filter(|(name, _)| name != "Date").cloned().collect::<Vec<_>>();
            assert_eq!((get.status, without_date(&get)), (head.status, without_date(&head)), "{target}");
            assert!(head.body.is_empty());
        }
        let metrics = client.request("HEAD", "/metrics", "", b"");
        assert_eq!((metrics.status, metrics.body.len()), (200, 0));
    });
}

#[test]
fn other_methods_and_paths() {
    on_each_driver(|client| {
        let options = client.request("OPTIONS", "*", "", b"");
        assert_eq!((options.status, options.body.len()), (204, 0));
        for (method, target, allow) in [
            ("DELETE", "/", "GET, HEAD, POST"),
            ("PUT", "/baseline11", "GET, HEAD, POST"),
            ("POST", "/pipeline", "GET, HEAD"),
            ("GET", "/upload", "POST"),
            ("HEAD", "/echo", "POST"),
            ("OPTIONS", "/json/1", "GET, HEAD"),
            ("BREW", "/ws", "GET, HEAD"),
            ("get", "/pipeline", "GET, HEAD"),
        ] {
            let answer = client.request(method, target, "", b"");
            assert_eq!((answer.status, answer.field("allow")), (405, Some(allow)), "{method} {target}");
        }
        for target in ["/nowhere", "/pipeline/", "//", "/Pipeline", "/metrics/x", "/json/1?m=1/2", "/%70ipeline"] {
            let expected = if target.starts_with("/json") { 200 } else { 404 };
            assert_eq!(client.get(target).status, expected, "{target}");
        }
        let connect = client.request("CONNECT", "arena:443", "", b"");
        assert_eq!(connect.status, 405);
        assert!(connect.field("allow").is_some());
    });
}
