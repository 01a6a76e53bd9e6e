//! A number is not text.
use plimsoll::http::{IntoResponse, Request};

async fn count(_request: Request) -> impl IntoResponse {
    7_u32
}

fn main() {
    drop(count);
}
