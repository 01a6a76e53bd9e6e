//! A handler that asks for another state than the router has.
use plimsoll::http::{Request, Router};

#[derive(Clone)]
struct App;

#[derive(Clone)]
struct Database;

async fn list(_request: Request, _database: Database) -> &'static str {
    "nothing"
}

fn main() {
    let _ = Router::with_state(App).get("/", list);
}
