//! One that takes what cannot be sent.
use std::rc::Rc;

#[plimsoll::send]
async fn slow(name: Rc<str>) -> usize {
    name.len()
}

fn main() {
    drop(slow("name".into()));
}
