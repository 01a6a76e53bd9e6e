//! A state that cannot go to another worker.
use std::rc::Rc;

use plimsoll::http::Router;

fn main() {
    let _ = Router::with_state(Rc::new(7));
}
