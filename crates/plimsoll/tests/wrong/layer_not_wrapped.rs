//! A function as a layer, as it is.
use plimsoll::http::layer::Next;
use plimsoll::http::{Request, Response, Router};

async fn passed(request: Request, next: Next<'_>) -> Response {
    next.run(request).await
}

fn main() {
    let _ = Router::new().get("/", async |_request: Request| "hello").layer(passed);
}
