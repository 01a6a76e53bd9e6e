//! A route's handler that takes only the state.
use plimsoll::http::Router;

#[derive(Clone)]
struct App;

async fn hello(_app: App) -> &'static str {
    "hello"
}

fn main() {
    let _ = Router::with_state(App).get("/", hello);
}
