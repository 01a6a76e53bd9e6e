//! A handler that is not async.
use plimsoll::http::{Request, Response, Server};

fn hello(_request: Request) -> Response {
    Response::text("hello")
}

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    Server::bind("127.0.0.1:8080")?.serve(hello).await
}
