//! Any bytes as what the peers of a compact session and of one of rustls do.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_conformance::tls_records::session(data));
