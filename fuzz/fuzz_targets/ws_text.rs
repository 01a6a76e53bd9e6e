//! Any bytes as a text that comes in parts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::ws_text(data));
