//! A handler that asks for a state where the router has none.
use plimsoll::http::{Request, Router};

#[derive(Clone)]
struct App;

async fn list(_request: Request, _app: App) -> &'static str {
    "nothing"
}

fn main() {
    let _ = Router::new().get("/", list);
}
