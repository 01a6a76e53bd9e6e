//! A connection of the codec with the memory that its owner holds for it.

use crate::h1::FieldSlot;
use crate::h2::{Connection, Limits, Repeat, Storage, Stream};

/// A server's side of a connection, as its owner has it.
pub(super) struct Held {
    pub(super) connection: Connection,
    pub(super) streams: [Stream; 8],
    pub(super) tables: [[u8; 4_096]; 2],
    pub(super) bytes: Vec<u8>,
    pub(super) slots: [FieldSlot; 100],
    pub(super) repeat: Repeat,
    pub(super) out: Vec<u8>,
}

impl Held {
    pub(super) fn new() -> Held {
        let limits = Limits::DEFAULT;
        Held {
            connection: Connection::new(&limits),
            streams: [Stream::FREE; 8],
            tables: [[0; 4_096]; 2],
            bytes: vec![0; limits.scratch_bytes()],
            slots: [FieldSlot::EMPTY; 100],
            repeat: Repeat::default(),
            out: Vec::new(),
        }
    }

    pub(super) fn with<R>(&mut self, act: impl FnOnce(&mut Connection, &mut Storage<'_>, &mut Vec<u8>) -> R) -> R {
        let [decoder_table, encoder_table] = &mut self.tables;
        let mut storage = Storage {
            streams: &mut self.streams,
            decoder_table,
            encoder_table,
            bytes: &mut self.bytes,
            slots: &mut self.slots,
            repeat: &mut self.repeat,
        };
        act(&mut self.connection, &mut storage, &mut self.out)
    }
}
