//! Criterion benches of the Plimsoll crates.
#![forbid(unsafe_code)]
