//! Any bytes as frames of a WebSocket.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plimsoll_codec::fuzz::ws_frames(data));
