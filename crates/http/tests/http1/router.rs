//! What requests get from a server with routes.

#![cfg(feature = "router")]

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_http::{
    Error, Message, Method, Request, Response, RouteError, Router, Server, StatusCode, WebSocketConfig, WebSocketRef,
};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Spawner, sleep, spawn};

use crate::rig::frames::{Client, END_HEADERS, HEADERS, block, frame};
use crate::rig::{in_simulation, on_each, talk};

#[derive(Clone)]
struct App {
    visits: Arc<AtomicU32>,
}

async fn user(req: Request) -> Response {
    Response::text(format!("<{}>", req.param("id").unwrap_or("none")))
}

async fn visit(_req: Request, app: App) -> String {
    sleep(Duration::from_millis(1)).await;
    format!("visit {}", app.visits.fetch_add(1, Ordering::Relaxed) + 1)
}

async fn upload(mut req: Request) -> Result<Response, Error> {
    let length = req.collect().await?.len();
    Ok(Response::text(format!("{}: {length}", req.param("rest").unwrap_or_default())))
}

fn routes() -> Router<App> {
    let api = Router::new().get("/", async |_req: Request| "api").get("/{a}/{b}", async |req: Request| {
        Response::text(format!("{}-{}-{}", req.param("a").unwrap_or(""), req.param("b").unwrap_or(""), req.path()))
    });
    Router::with_state(App { visits: Arc::default() })
        .get("/users/{id}", user)
        .get("/users/me", async |_req: Request| "it is me")
        .delete("/users/{id}", async |_req: Request| StatusCode::NO_CONTENT)
        .get("/visit", visit)
        .put("/files/{*rest}", upload)
        .nest("/api", api)
}

async fn ask(address: core::net::SocketAddr, line: &str, body: &str) -> String {
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    talk(address, &[request.as_bytes()], None).await.expect("an answer")
}

#[test]
fn requests_find_their_routes() {
    on_each("router", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = spawn(server.serve(routes()))?;
        let cases = [
            ("GET /users/7?q=1", "200", "<7>"),
            ("GET /users/a%20b", "200", "<a%20b>"),
            ("GET /users/me", "200", "it is me"),
            ("GET http://h/users/9", "200", "<9>"),
            ("DELETE /users/7", "204", ""),
            ("GET /visit", "200", "visit 1"),
            ("GET /visit", "200", "visit 2"),
            ("GET /api", "200", "api"),
            ("GET /api/x/y", "200", "x-y-/api/x/y"),
            ("PUT /files/a/b/c", "200", "a/b/c: 5"),
            ("GET /", "404", ""),
            ("GET /users/7/", "404", ""),
            ("GET /api/", "404", ""),
            ("POST /users/7", "405", ""),
            ("HEAD /users/7", "200", ""),
            ("OPTIONS /visit", "204", ""),
        ];
        for (line, status, end) in cases {
            let body = if line.starts_with("PUT") { "12345" } else { "" };
            let answer = ask(address, line, body).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
            assert!(answer.ends_with(&format!("\r\n\r\n{end}")), "{line}: {answer}");
        }
        let refused = ask(address, "POST /users/7", "").await;
        assert!(refused.contains("\r\nAllow: GET, DELETE, HEAD, OPTIONS\r\n"), "{refused}");
        let asked = ask(address, "OPTIONS /visit", "").await;
        assert!(asked.contains("\r\nAllow: GET, HEAD, OPTIONS\r\n"), "{asked}");
        let refused = ask(address, "GET /files/a", "").await;
        assert!(refused.contains("\r\nAllow: PUT, OPTIONS\r\n"), "no HEAD without GET: {refused}");
        let head = ask(address, "HEAD /users/7", "").await;
        assert!(head.contains("\r\nContent-Length: 3\r\n"), "{head}");
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn a_route_for_websockets_takes_both_forms() {
    on_each("router of WebSockets", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let echo = async |req: Request| {
            req.serve_websocket(&WebSocketConfig::default(), |socket: &mut WebSocketRef<'_>, message: Message| {
                socket.send(message)
            })
        };
        let serving = spawn(server.serve(Router::new().websocket("/", echo)))?;
        let mut socket = TcpStream::connect(address).await?;
        socket.send_bytes([crate::rig::websocket::HANDSHAKE, "\r\n"].concat().as_bytes()).await?;
        let answer = socket.recv().await?.expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", answer.escape_ascii());
        let mut client = Client::connect(address, &[]).await?;
        let target = [(":scheme", "http"), (":authority", "h"), (":path", "/"), ("sec-websocket-version", "13")];
        let connect = [&[(":method", "CONNECT"), (":protocol", "websocket")], &target[..]].concat();
        client.send(&frame(HEADERS, END_HEADERS, 1, &block(&connect))).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(200) && !head.ends_stream(), "{head:?}");
        drop((socket, client));
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn a_fallback_answers_what_has_no_route() {
    in_simulation("fallback", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let routes = routes().fallback(async |req: Request| {
            Response::text(format!("nothing at {}", req.path())).with_status(StatusCode::NOT_FOUND)
        });
        let serving = spawn(server.serve(routes))?;
        assert!(ask(address, "GET /nowhere", "").await.ends_with("nothing at /nowhere"));
        assert!(ask(address, "POST /visit", "").await.starts_with("HTTP/1.1 405 "), "a path without the method");
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn routes_that_collide_do_not_serve() {
    in_simulation("collision", async || {
        let routes = routes().get("/visit", user);
        let error = Server::bind("127.0.0.1:0")?.serve(routes).await.expect_err("two routes for one path");
        let twice = RouteError::Twice { path: "/visit".to_owned(), method: Method::GET };
        assert_eq!(error.to_string(), format!("the service cannot be served: {twice}"));
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<RouteError>());
        assert_eq!(source, Some(&twice));
        Ok(())
    });
}
