//! Programs that show Plimsoll at work; run one with `cargo run --release --example NAME`.
#![forbid(unsafe_code)]
