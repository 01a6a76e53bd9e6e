//! The arguments of a handler in the wrong order.
use plimsoll::http::{Request, Router};

#[derive(Clone)]
struct App;

async fn list(_app: App, _request: Request) -> &'static str {
    "nothing"
}

fn main() {
    let _ = Router::with_state(App).get("/", list);
}
