//! Any bytes as header blocks of HTTP/2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::hpack(data));
