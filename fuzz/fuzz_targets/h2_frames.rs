//! Any bytes as frames of HTTP/2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::h2_frames(data));
