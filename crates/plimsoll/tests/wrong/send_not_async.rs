//! A function that is not async.
#[plimsoll::send]
fn slow() -> u8 {
    1
}

fn main() {
    slow();
}
