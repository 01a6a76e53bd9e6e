//! For tests and fuzzers: that nothing is lost.

use super::{Connection, WINDOW_BYTES};
use crate::h2::Stream;
use crate::h2::stream::{Output, find};
use crate::hpack::TABLE_BYTES;

impl Connection {
    /// Asserts that no byte of any window is lost: `granted` are the bytes by which windows were grown.
    pub(crate) fn audit(&self, streams: &[Stream], granted: impl Fn(u32) -> u32) {
        let alive = || streams.iter().filter(|stream| stream.id != 0);
        assert_eq!(usize::from(self.live), alive().count(), "slots in use");
        let waiting = alive().filter(|stream| stream.output == Output::Waiting).count();
        assert_eq!(usize::from(self.waiting), waiting, "streams that wait to send");
        let held: u32 = alive().map(|stream| stream.receiving.held).sum();
        assert_eq!(self.receiving.held, held, "the connection holds what its streams hold");
        assert_eq!(self.receiving.total(), i64::from(WINDOW_BYTES) + i64::from(granted(0)), "the connection's window");
        for stream in alive().filter(|stream| stream.state.can_receive()) {
            let expected = i64::from(self.own_window) + i64::from(granted(stream.id));
            assert_eq!(stream.receiving.total(), expected, "the window of stream {}", stream.id);
        }
        assert!(self.decoder.table_bytes() <= TABLE_BYTES && self.encoder.table_bytes() <= TABLE_BYTES);
    }

    /// What the peer may send on the connection, or on a stream on which it may send at all.
    pub(crate) fn receive_window(&self, streams: &[Stream], id: u32) -> Option<i32> {
        match id {
            0 => Some(self.receiving.window),
            _ => {
                let stream = find(streams, id).map(|key| streams[usize::from(key.slot)])?;
                stream.state.can_receive().then_some(stream.receiving.window)
            }
        }
    }
}
