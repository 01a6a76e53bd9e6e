//! An argument of tokio's attribute.
#[plimsoll::main(worker_threads = 2)]
async fn main() {}
