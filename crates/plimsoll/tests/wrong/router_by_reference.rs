//! A router that is only borrowed.
use plimsoll::http::{Request, Router, Server};

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    let routes = Router::new().get("/", async |_request: Request| "hello");
    Server::bind("127.0.0.1:8080")?.serve(&routes).await
}
