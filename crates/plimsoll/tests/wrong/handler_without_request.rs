//! A handler that does not take the request.
use plimsoll::http::Server;

async fn hello() -> &'static str {
    "hello"
}

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    Server::bind("127.0.0.1:8080")?.serve(hello).await
}
