//! A main that is not async.
#[plimsoll::main(memory = "64MiB")]
fn main() {}
