//! Any bytes as a compressed message, and as one to compress.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::ws_deflate(data));
