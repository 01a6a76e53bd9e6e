//! A small service without a framework: routes by method and path, parameters, shared state, and hints that go before a
//! page.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use plimsoll::http::{Error, Request, Response, Router, Server, StatusCode};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

/// Notes by name, at most this many, of at most this many bytes each: what a peer can fill has a limit.
const NOTES_MAX: usize = 1_000;
const NOTE_BYTES_MAX: usize = 1_024;

type Notes = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

async fn list(_req: Request, notes: Notes) -> Response {
    let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    Response::text(notes.keys().fold(String::new(), |list, name| list + name + "\n"))
}

async fn read(req: Request, notes: Notes) -> Response {
    let notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    match req.param("name").and_then(|name| notes.get(name)) {
        Some(note) => Response::text(note.clone()),
        None => Response::new(StatusCode::NOT_FOUND),
    }
}

async fn write(mut req: Request, notes: Notes) -> Result<StatusCode, Error> {
    let note = req.collect_up_to(NOTE_BYTES_MAX).await?;
    let name = req.param("name").unwrap_or_default().to_owned();
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    if notes.len() >= NOTES_MAX && !notes.contains_key(&name) {
        return Ok(StatusCode::INSUFFICIENT_STORAGE);
    }
    notes.insert(name, note);
    Ok(StatusCode::NO_CONTENT)
}

/// What the page will ask for next.
const PRELOAD: &str = "</notes>; rel=preload; as=fetch";

/// A browser begins to load the notes while the page is still being made: `curl -v` shows both heads.
async fn page(mut req: Request) -> Result<Response, Error> {
    req.inform(Response::new(StatusCode::EARLY_HINTS).header("Link", PRELOAD)).await?;
    plimsoll::sleep(Duration::from_millis(50)).await;
    let page = "<pre></pre><script>fetch('/notes').then(r => r.text()).then(t => document.querySelector('pre').append(t))</script>";
    Ok(Response::new(StatusCode::OK).header("Content-Type", "text/html").header("Link", PRELOAD).body(page))
}

#[plimsoll::main(memory = "64MiB")]
async fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let notes = Router::with_state(Notes::default()).get("/", list).get("/{name}", read).put("/{name}", write);
    let routes = Router::new().get("/", page).get("/health", async |_req: Request| "ok\n").nest("/notes", notes);
    let server = Server::bind(&flags.listen)?;
    println!("listening on http://{}", server.local_addr());
    server.serve(routes).await
}
