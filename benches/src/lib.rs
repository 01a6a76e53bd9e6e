//! Criterion benches of the Plimsoll crates.
