//! Tests of HPACK: the RFC's examples, its errors, limits, and properties.
//!
//! * What our encoder writes, an independent decoder reads, and the other way round, with both tables over many blocks.
//! * Whatever bytes come, the table is never larger than it may be, and its count is true.
//! * The table is a list of entries, newest first: a model says so after every insertion and change of size.
mod blocks;
mod discard;
mod peer;
mod vectors;

use super::{Decoder, FieldBuf, TABLE_BYTES};
use crate::Error;
use crate::h1::FieldSlot;

pub(super) type Field = (Vec<u8>, Vec<u8>);

/// A decoder with all that it needs.
pub(super) struct Reader {
    pub(super) decoder: Decoder,
    storage: Vec<u8>,
}

impl Reader {
    pub(super) fn new(table_bytes: u16) -> Reader {
        Reader { decoder: Decoder::new(table_bytes), storage: vec![0; table_bytes.into()] }
    }

    /// The fields of a block, or `None` if they are over the limits.
    pub(super) fn read(&mut self, block: &[u8]) -> Result<Option<Vec<Field>>, Error> {
        self.read_limited(block, 16_384, 100)
    }

    pub(super) fn read_limited(
        &mut self,
        block: &[u8],
        list_bytes: usize,
        fields: usize,
    ) -> Result<Option<Vec<Field>>, Error> {
        let (mut bytes, mut slots) = (vec![0; list_bytes.max(TABLE_BYTES)], vec![FieldSlot::EMPTY; fields]);
        let mut out = FieldBuf::new(&mut bytes, &mut slots, list_bytes);
        self.decoder.decode(&mut self.storage, block, &mut out)?;
        assert!(self.decoder.table_bytes() <= self.storage.len());
        Ok((!out.is_over()).then(|| out.fields().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()))
    }
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
