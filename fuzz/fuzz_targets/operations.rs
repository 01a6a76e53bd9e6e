//! A schedule of arrivals and answers, and what a client sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::operations(data));
