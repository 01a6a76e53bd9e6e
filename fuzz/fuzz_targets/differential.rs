//! Any bytes as one request, for our codec, httparse and kawa.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_conformance::differential::request(data));
