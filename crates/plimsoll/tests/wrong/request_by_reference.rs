//! A handler that borrows its request.
use plimsoll::http::{Request, Router};

async fn hello(_request: &Request) -> &'static str {
    "hello"
}

fn main() {
    let _ = Router::new().get("/", hello);
}
