//! The service in simulated worlds: no sockets, no time that passes.

use plimsoll::http::StatusCode;
use plimsoll::net::TcpStream;
use plimsoll::sim::{Faults, SimConfig, World};
use plimsoll::sleep;
use plimsoll::testing::{Client, ClientBuilder};
use serde_json::{Value, json};

use super::*;

fn start(builder: ClientBuilder) -> Client {
    builder.serve_with(|| {
        let app = App::new().expect("the limits are right");
        spawn(clear(app.clone())).expect("there is room");
        routes(app, "/page.html")
    })
}

#[test]
fn tasks_are_created_read_updated_and_deleted() {
    let client = start(Client::builder());
    let made = client.post("/tasks").json(&json!({ "title": " paint the hull " })).send();
    assert_eq!((made.status(), made.header("location")), (StatusCode::CREATED, Some("/tasks/1")));
    assert!(made.header("x-request-id").is_some());
    let task = Task { id: 1, title: "paint the hull".to_owned(), done: false };
    assert_eq!(client.get("/tasks/1").send().json::<Task>(), task);
    let done = client.put("/tasks/1").json(&json!({ "title": "paint the hull", "done": true })).send();
    assert_eq!(done.json::<Task>(), Task { done: true, ..task });
    assert_eq!(client.get("/tasks?done=false").send().json::<Vec<Task>>(), []);
    assert_eq!(client.get("/tasks?done=true").send().json::<Vec<Task>>().len(), 1);
    assert_eq!(client.delete("/tasks/1").send().status(), StatusCode::NO_CONTENT);
    assert_eq!(client.get("/tasks/1").send().status(), StatusCode::NOT_FOUND);
    client.finish();
}

#[test]
fn what_is_wrong_is_told() {
    let client = start(Client::builder());
    let post = |task: Value| client.post("/tasks").json(&task).send();
    let empty = post(json!({ "title": " " }));
    assert_eq!((empty.status().as_u16(), empty.text()), (422, r#"{"error":"a task has a title"}"#));
    let wrong = post(json!({ "title": 7 }));
    assert_eq!(wrong.status().as_u16(), 422);
    assert!(wrong.text().contains("expected a string at line 1 column 10"), "{}", wrong.text());
    assert_eq!(post(json!({ "title": "x".repeat(5_000) })).status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(client.get("/tasks/seven").send().status(), StatusCode::BAD_REQUEST);
    assert_eq!(client.get("/tasks?done=perhaps").send().status(), StatusCode::BAD_REQUEST);
    client.finish();
}

#[test]
fn done_tasks_are_gone_after_a_minute() {
    let client = start(Client::builder());
    client.post("/tasks").json(&json!({ "title": "weigh anchor", "done": true })).send();
    client.run(async { sleep(2 * CLEAR_EVERY).await });
    assert_eq!(client.get("/tasks").send().json::<Vec<Task>>(), []);
    client.finish();
}

#[test]
fn watchers_and_browsers_are_served() {
    let world = World::new(SimConfig::new(1));
    world.place_file("/page.html", b"<p>tasks".to_vec()).expect("the world has room");
    let client = start(Client::builder().world(&world));
    let page = client.get("/").send();
    assert_eq!((page.text(), page.header("content-type")), ("<p>tasks", Some("text/html; charset=utf-8")));
    let mut watching = client.run(async {
        let mut stream = TcpStream::connect(client.address()).await.expect("the server listens");
        stream.send_bytes(b"GET /events HTTP/1.1\r\nHost: test\r\n\r\n").await.expect("it reads");
        sleep(Duration::from_millis(100)).await;
        stream
    });
    client.post("/tasks").json(&json!({ "title": "cast off" })).send();
    let seen = client.run(async {
        let mut seen = Vec::new();
        while !seen.windows(13).any(|bytes| bytes == b"data: created") {
            seen.extend_from_slice(&watching.recv().await.expect("it sends").expect("it goes on"));
        }
        String::from_utf8(seen).expect("it is text")
    });
    assert!(seen.contains("text/event-stream"), "{seen}");
    drop(watching);
    client.finish();
}

/// In every world, whatever fails there, a task that was acknowledged is there.
#[test]
fn what_was_acknowledged_is_there_in_every_world() {
    let (mut acknowledged, mut read_again) = (0, 0);
    for seed in 0..50 {
        let world = World::new(SimConfig::new(seed).with_faults(Faults::wild()));
        let client = start(Client::builder().world(&world));
        for at in 0..3 {
            let made = client.post("/tasks").json(&json!({ "title": format!("task {at}") })).try_send();
            let Some(made) = made.filter(|made| made.status() == StatusCode::CREATED) else { continue };
            acknowledged += 1;
            let path = made.header("location").expect("it says where").to_owned();
            // What is lost on the way, or refused, says nothing of the task.
            let says = |status| status == StatusCode::OK || status == StatusCode::NOT_FOUND;
            let read = (0..20).find_map(|_| client.get(&path).try_send().filter(|read| says(read.status())));
            let Some(read) = read else { continue };
            assert_eq!(read.json::<Task>().title, format!("task {at}"), "seed {seed}: {path} is another task");
            read_again += 1;
        }
    }
    let told = (acknowledged, read_again);
    assert!(acknowledged > 50 && read_again > 50, "{told:?}: the worlds are too wild to show anything");
}
