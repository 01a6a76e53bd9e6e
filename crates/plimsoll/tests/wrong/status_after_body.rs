//! A tuple in the wrong order.
use plimsoll::http::{IntoResponse, StatusCode};

fn made() -> impl IntoResponse {
    ("made", StatusCode::CREATED)
}

fn main() {
    made();
}
