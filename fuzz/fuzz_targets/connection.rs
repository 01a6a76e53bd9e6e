//! Any bytes as all that a client sends on one connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::connection(data));
