//! A state that cannot be copied to each worker.
use plimsoll::http::Router;

struct App;

fn main() {
    let _ = Router::with_state(App);
}
