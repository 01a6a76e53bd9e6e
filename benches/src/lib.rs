//! Criterion benches of the Plimsoll crates, and programs that xtask measures.
#![forbid(unsafe_code)]
