//! A handler that returns a struct.
use plimsoll::http::{Request, Router};

struct User {
    _name: String,
}

async fn user(_request: Request) -> User {
    User { _name: "ada".to_owned() }
}

fn main() {
    let _ = Router::new().get("/", user);
}
