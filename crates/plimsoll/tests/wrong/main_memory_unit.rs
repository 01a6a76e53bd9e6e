//! A memory line in no unit that there is.
#[plimsoll::main(memory = "64 megs")]
async fn main() {}
