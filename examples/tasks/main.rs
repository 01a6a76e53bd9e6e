//! A list of tasks, as a service has it: JSON with validation, layers, events and a WebSocket room, a page from a file,
//! a task beside it, metrics, an orderly stop, and its tests.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Parser;
use plimsoll::http::layer::{BodyLimit, CatchPanic, Log, RequestId, Timeout};
use plimsoll::http::{
    Error, Event, Hub, HubConfig, IntoResponse, Json, Request, Response, Router, ServeFile, Server, StatusCode, metrics,
};
use plimsoll::{interval, signal, spawn};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// The file of the page.
    #[arg(long, default_value = "examples/tasks/page.html")]
    page: String,
}

/// What a peer can fill has a limit.
const TASKS_MAX: usize = 1_000;
const TITLE_CHARS_MAX: usize = 100;
/// How often done tasks are cleared away.
const CLEAR_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Task {
    #[serde(default)]
    id: u64,
    title: String,
    #[serde(default)]
    done: bool,
}

/// What the handlers share.
#[derive(Clone)]
struct App {
    tasks: Arc<Mutex<BTreeMap<u64, Task>>>,
    /// Everybody who watches: WebSockets and streams of events.
    watchers: Hub,
}

/// Why a request failed, as its client is told.
#[derive(Debug)]
enum Failed {
    Http(Error),
    Invalid(&'static str),
    Unknown,
    Full,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Http(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Self::Http(error) => return error.into_response(),
            Self::Invalid(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
            Self::Unknown => (StatusCode::NOT_FOUND, "there is no such task"),
            Self::Full => (StatusCode::INSUFFICIENT_STORAGE, "there are too many tasks"),
        };
        (status, Json(BTreeMap::from([("error", why)]))).into_response()
    }
}

impl App {
    fn new() -> Result<Self, Error> {
        Ok(Self { tasks: Arc::default(), watchers: Hub::new(HubConfig::default())? })
    }

    fn tasks(&self) -> MutexGuard<'_, BTreeMap<u64, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, what: &str) {
        // At the memory line nobody is told.
        let _told = self.watchers.publish(&Event::data(what));
    }
}

/// A task as a client sends it.
async fn received(req: &mut Request) -> Result<Task, Failed> {
    let task: Task = req.json().await?;
    match task.title.trim() {
        "" => Err(Failed::Invalid("a task has a title")),
        title if title.chars().count() > TITLE_CHARS_MAX => Err(Failed::Invalid("the title is too long")),
        title => Ok(Task { title: title.to_owned(), ..task }),
    }
}

#[derive(Deserialize)]
struct Which {
    done: Option<bool>,
}

async fn list(req: Request, app: App) -> Result<Json<Vec<Task>>, Failed> {
    let which: Which = req.query()?;
    let tasks = app.tasks();
    Ok(Json(tasks.values().filter(|task| which.done.is_none_or(|done| done == task.done)).cloned().collect()))
}

async fn create(mut req: Request, app: App) -> Result<impl IntoResponse, Failed> {
    let task = received(&mut req).await?;
    let task = {
        let mut tasks = app.tasks();
        if tasks.len() >= TASKS_MAX {
            return Err(Failed::Full);
        }
        let id = tasks.last_key_value().map_or(1, |(last, _)| last + 1);
        tasks.entry(id).insert_entry(Task { id, ..task }).get().clone()
    };
    app.tell("created");
    Ok((StatusCode::CREATED, [("location", format!("/tasks/{}", task.id))], Json(task)))
}

async fn read(req: Request, app: App) -> Result<Json<Task>, Failed> {
    let id: u64 = req.path_params()?;
    app.tasks().get(&id).cloned().map(Json).ok_or(Failed::Unknown)
}

async fn update(mut req: Request, app: App) -> Result<Json<Task>, Failed> {
    let id: u64 = req.path_params()?;
    let task = Task { id, ..received(&mut req).await? };
    match app.tasks().get_mut(&id) {
        Some(known) => *known = task.clone(),
        None => return Err(Failed::Unknown),
    }
    app.tell("updated");
    Ok(Json(task))
}

async fn delete(req: Request, app: App) -> Result<StatusCode, Failed> {
    let id: u64 = req.path_params()?;
    app.tasks().remove(&id).ok_or(Failed::Unknown)?;
    app.tell("deleted");
    Ok(StatusCode::NO_CONTENT)
}

async fn room(req: Request, app: App) -> Result<Response, Error> {
    app.watchers.join_websocket(&req)
}

async fn events(req: Request, app: App) -> Result<Response, Error> {
    app.watchers.join_events(req).await
}

/// Clears done tasks away, until the service stops.
async fn clear(app: App) {
    let mut every = interval(CLEAR_EVERY);
    while !signal::is_stopping() {
        every.tick().await;
        app.tasks().retain(|_, task| !task.done);
    }
}

fn routes(app: App, page: &str) -> Router<App> {
    let log = Log::new(|record| {
        let status = record.status.map_or(0, |status| status.as_u16());
        let id = record.id.map_or("-", |id| id.as_str());
        eprintln!("{id} {} {} {status} {:?}", record.method, record.path, record.duration);
    });
    let tasks = Router::with_state(app.clone())
        .get("/", list)
        .post("/", create)
        .get("/{id}", read)
        .put("/{id}", update)
        .delete("/{id}", delete)
        .layer((Timeout::new(Duration::from_secs(5)), BodyLimit::new(4_096)));
    Router::with_state(app)
        .get("/", ServeFile::new(page))
        .get("/events", events)
        .websocket("/room", room)
        .nest("/tasks", tasks)
        .layer((RequestId::new(), log, CatchPanic))
        .get("/metrics", metrics::handler())
}

/// Serves until SIGINT or SIGTERM, and finishes what was begun.
#[plimsoll::main(memory = "64MiB")]
async fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let app = App::new().expect("the default limits of a hub are right");
    spawn(clear(app.clone()))?;
    let server = Server::bind(&flags.listen)?;
    println!("listening on http://{}", server.local_addr());
    server.serve(routes(app, &flags.page)).await
}

#[cfg(test)]
mod tests;
