//! A route's handler that is not async.
use plimsoll::http::{Request, Router};

fn hello(_request: Request) -> &'static str {
    "hello"
}

fn main() {
    let _ = Router::new().get("/", hello);
}
