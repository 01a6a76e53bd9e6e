//! One that borrows.
#[plimsoll::send]
async fn slow(name: &str) -> usize {
    name.len()
}

fn main() {
    drop(slow("name"));
}
