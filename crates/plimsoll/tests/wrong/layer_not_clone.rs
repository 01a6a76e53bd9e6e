//! A layer that only one worker could have.
use plimsoll::http::layer::{Endpoint, Layer};
use plimsoll::http::{Request, Response};

struct Auth;

impl Layer for Auth {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        next.call(request).await
    }
}

fn main() {}
