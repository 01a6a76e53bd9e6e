//! A handler with something in it that stays on one thread.
use std::cell::Cell;
use std::rc::Rc;

use plimsoll::http::{Request, Server};

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    let count = Rc::new(Cell::new(0));
    let counted = move |_request: Request| {
        let count = Rc::clone(&count);
        async move {
            count.set(count.get() + 1);
            "counted"
        }
    };
    Server::bind("127.0.0.1:8080")?.serve(counted).await
}
