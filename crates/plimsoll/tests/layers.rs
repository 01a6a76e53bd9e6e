//! Layers around routes and routers: in which order, around what, and what the shipped ones do.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll::http::layer::{BodyLimit, CatchPanic, Endpoint, Id, Layer, Log, Next, RequestId, Timeout, from_fn};
use plimsoll::http::{Error, Request, Response, Router, StatusCode};
use plimsoll::net::TcpStream;
use plimsoll::sleep;
use plimsoll::testing::Client;

/// What layers and handlers have written down.
type Notes = Arc<Mutex<Vec<String>>>;

fn note(notes: &Notes, text: impl Into<String>) {
    notes.lock().expect("nobody panics with it").push(text.into());
}

fn take(notes: &Notes) -> Vec<String> {
    std::mem::take(&mut *notes.lock().expect("nobody panics with it"))
}

/// Writes down when it is passed, and when the head is encoded.
#[derive(Clone)]
struct Passed(&'static str, Notes);

impl Layer for Passed {
    async fn call(&self, req: Request, next: &impl Endpoint) -> Response {
        let Self(name, notes) = self.clone();
        note(&notes, format!("{name} in"));
        let told = notes.clone();
        req.on_head(move |head| {
            note(&told, format!("{name} head {}", head.status().as_u16()));
            head.add_header("x-passed", name).expect("there is room");
        });
        let response = next.call(req).await;
        note(&notes, format!("{name} out"));
        response
    }
}

async fn whole(_req: Request) -> (StatusCode, &'static str) {
    (StatusCode::CREATED, "whole")
}

async fn streamed(mut req: Request) -> Result<Response, Error> {
    let mut out = req.respond(Response::new(StatusCode::ACCEPTED), None)?;
    out.write_static(b"stre").await?;
    sleep(Duration::from_secs(1)).await;
    out.write_static(b"amed").await?;
    out.finish().await
}

/// Sends bytes on one connection, and reads until what came satisfies.
fn raw(client: &Client, request: &[u8], is_enough: impl Fn(&str) -> bool) -> String {
    client.run(async {
        let mut stream = TcpStream::connect(client.address()).await.expect("the server listens");
        stream.send_bytes(request).await.expect("it takes the request");
        let mut received = Vec::new();
        while !is_enough(&String::from_utf8_lossy(&received)) {
            received.extend_from_slice(&stream.recv().await.expect("it answers").expect("it keeps the connection"));
        }
        String::from_utf8(received).expect("it is text")
    })
}

#[test]
fn layers_are_passed_from_the_outside_and_heads_seen_from_the_inside() {
    let notes = Notes::default();
    let passed = |name| Passed(name, notes.clone());
    let layers = (passed("a"), passed("b"), (passed("c"), passed("d")));
    let routes = Router::new().get("/whole", layers.clone().around(whole)).get("/streamed", streamed);
    let client = Client::new(routes.layer(passed("e")).layer(passed("f")));
    let answer = client.get("/whole").send();
    assert_eq!((answer.status(), answer.text()), (StatusCode::CREATED, "whole"));
    let passed: Vec<&str> = answer.headers().filter(|(name, _)| *name == "x-passed").map(|(_, by)| by).collect();
    assert_eq!(passed, ["d", "c", "b", "a", "e", "f"], "the last one in sees the head first");
    let ins = ["f in", "e in", "a in", "b in", "c in", "d in", "d out", "c out", "b out", "a out", "e out", "f out"];
    let heads = ["d", "c", "b", "a", "e", "f"].map(|name| format!("{name} head 201"));
    assert_eq!(take(&notes), [&ins.map(str::to_owned)[..], &heads].concat());
    // A streamed head leaves before its layers are done.
    let answer = client.get("/streamed").send();
    assert_eq!(
        (answer.status(), answer.text(), answer.header("x-passed")),
        (StatusCode::ACCEPTED, "streamed", Some("e"))
    );
    assert_eq!(take(&notes), ["f in", "e in", "e head 202", "f head 202", "e out", "f out"]);
    client.finish();
}

#[test]
fn a_layer_is_around_all_that_was_there_before() {
    let notes = Notes::default();
    let nested = Router::new().get("/inside", whole);
    let routes = Router::new().get("/", whole).nest("/nested", nested).layer(Passed("a", notes.clone()));
    let client = Client::new(routes.get("/later", whole));
    for (path, status, is_passed) in
        [("/", 201, true), ("/nested/inside", 201, true), ("/nowhere", 404, true), ("/later", 201, false)]
    {
        let answer = client.get(path).send();
        assert_eq!((answer.status().as_u16(), answer.header("x-passed").is_some()), (status, is_passed), "{path}");
    }
    let answer = client.post("/").send();
    let told = (answer.status().as_u16(), answer.header("allow"), answer.header("x-passed"));
    assert_eq!(told, (405, Some("GET, HEAD, OPTIONS"), Some("a")));
    client.finish();
    let routes = Router::new().fallback(whole).layer(Passed("a", notes));
    let client = Client::new(routes);
    assert_eq!(client.get("/any").send().header("x-passed"), Some("a"));
    client.finish();
}

#[test]
fn a_function_is_a_layer() {
    let only = async |req: Request, next: Next<'_>| match req.header("x-key") {
        Some(b"open") => Ok(next.run(req).await),
        _ => Err(StatusCode::FORBIDDEN),
    };
    let client = Client::new(Router::new().get("/", whole).layer(from_fn(only)));
    assert_eq!(client.get("/").send().status(), StatusCode::FORBIDDEN);
    assert_eq!(client.get("/").header("x-key", "open").send().status(), StatusCode::CREATED);
    client.finish();
}

#[test]
fn each_request_has_its_id() {
    let which = async |req: Request| req.extensions().get::<Id>().map(Id::to_string);
    let routes = Router::new().get("/", which).get("/streamed", streamed).layer(RequestId::new());
    let client = Client::new(routes);
    let answers = [client.get("/").header("x-request-id", "mine").send(), client.get("/").send()];
    let ids = answers.each_ref().map(|answer| answer.header("x-request-id").expect("it has one"));
    assert_eq!(ids, answers.each_ref().map(|answer| answer.text()));
    assert!(ids[0] != ids[1] && ids[0] != "mine", "{ids:?}");
    assert!(client.get("/streamed").send().header("x-request-id").is_some());
    assert!(client.get("/nowhere").send().header("x-request-id").is_some());
    client.finish();
    let client = Client::new(Router::new().get("/", which).layer(RequestId::new().from_client(true)));
    assert_eq!(client.get("/").header("x-request-id", "mine").send().text(), "mine");
    for wrong in ["two words", "\u{e9}", &"x".repeat(65)] {
        assert_ne!(client.get("/").header("x-request-id", wrong).send().text(), wrong);
    }
    client.finish();
}

#[test]
fn the_log_tells_of_every_request_with_its_end() {
    let notes = Notes::default();
    let written = notes.clone();
    let log = Log::new(move |record| {
        let is_known = (record.id.is_some(), record.peer.is_some());
        assert_eq!(is_known, (true, true));
        let (status, ms) = (record.status.map(|status| status.as_u16()), record.duration.as_millis());
        note(&written, format!("{} {} {status:?} {ms}", record.method, record.path));
    });
    let broken = async |_req: Request| -> Response { panic!("as the test wants") };
    let routes = Router::new().get("/", whole).get("/streamed", streamed).get("/broken", broken);
    let client = Client::new(routes.layer((RequestId::new(), log)));
    client.get("/?a=1").send();
    client.get("/streamed").send();
    assert_eq!(client.get("/broken").send().status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(take(&notes), ["GET / Some(201) 0", "GET /streamed Some(202) 1000", "GET /broken None 0"]);
    // A client that goes away before there is an answer.
    let late = async |_req: Request| sleep(Duration::from_secs(60)).await;
    client.finish();
    let written = notes.clone();
    let log = Log::new(move |record| note(&written, format!("{:?}", record.status)));
    let client = Client::new(Router::new().get("/", late).layer(log));
    client.run(async {
        let mut stream = TcpStream::connect(client.address()).await.expect("the server listens");
        stream.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("it takes the request");
        sleep(Duration::from_secs(1)).await;
        drop(stream);
        sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(take(&notes), ["None"]);
    client.finish();
}

#[test]
fn what_takes_too_long_is_dropped() {
    let late = async |_req: Request| sleep(Duration::from_secs(60)).await;
    let timeout = Timeout::new(Duration::from_secs(2));
    let client =
        Client::new(Router::new().get("/late", late).get("/", whole).get("/streamed", streamed).layer(timeout));
    assert_eq!(client.get("/").send().status(), StatusCode::CREATED);
    assert_eq!(client.get("/streamed").send().text(), "streamed");
    let answer = client.get("/late").send();
    assert_eq!((answer.status(), answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    client.finish();
    let client = Client::new(Timeout::new(Duration::from_millis(500)).around(streamed));
    assert!(client.get("/").try_send().is_none(), "it was cut short");
    client.finish();
}

#[test]
fn bodies_have_a_limit() {
    let length = async |mut req: Request| req.collect().await.map(|body| body.len().to_string());
    let chunks = async |mut req: Request| {
        while req.chunk().await?.is_some() {}
        Ok::<_, Error>("read")
    };
    let untouched = async |_req: Request| "untouched";
    let routes = Router::new().post("/", length).post("/chunks", chunks).post("/untouched", untouched);
    let client = Client::new(routes.layer((BodyLimit::new(8), BodyLimit::new(100))));
    assert_eq!(client.post("/").body("12345678").send().text(), "8");
    for path in ["/", "/chunks", "/untouched"] {
        assert_eq!(client.post(path).body("123456789").send().status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        let request = head + "8\r\n12345678\r\n1\r\n9\r\n0\r\n\r\n";
        let answer = raw(&client, request.as_bytes(), |text| text.contains("\r\n\r\n"));
        let status = if path == "/untouched" { "200" } else { "413" };
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    client.finish();
}

#[test]
fn a_panic_keeps_its_connection() {
    let broken = async |req: Request| -> &'static str {
        assert!(req.query_string().is_none(), "as the test wants");
        "well"
    };
    let two = b"GET /?a HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let client = Client::new(Router::new().get("/", broken).layer(CatchPanic));
    let answers = raw(&client, two, |text| text.ends_with("well"));
    assert!(answers.starts_with("HTTP/1.1 500 ") && answers.contains("HTTP/1.1 200 "), "{answers}");
    client.finish();
}

/// A callback that comes after the answer is not called. It must not stay for ever, either.
#[test]
fn callbacks_that_come_too_late_are_forgotten() {
    let held = Arc::new(());
    let counted = Arc::clone(&held);
    let too_late = move |req: Request| {
        let held = Arc::clone(&counted);
        async move {
            let late = async move {
                sleep(Duration::from_secs(1)).await;
                req.on_head(move |_head| drop(held));
            };
            drop(plimsoll::spawn(late).expect("there is room"));
            "answered"
        }
    };
    let client = Client::new(too_late);
    for _ in 0..100 {
        assert_eq!(client.get("/").send().text(), "answered");
    }
    client.run(async { sleep(Duration::from_secs(2)).await });
    // Ours, the handler's, that of the only worker, and the callback that came last.
    assert!(Arc::strong_count(&held) <= 4, "{} are left", Arc::strong_count(&held));
    client.finish();
}
