//! Any bytes as what a client and a server do on one HTTP/2 connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::h2_operations(data));
