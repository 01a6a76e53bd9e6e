//! A handler with a state, and no router to give it.
use plimsoll::http::{Request, Server};

#[derive(Clone)]
struct App;

async fn list(_request: Request, _app: App) -> &'static str {
    "nothing"
}

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    Server::bind("127.0.0.1:8080")?.serve(list).await
}
