//! From header blocks to fields (RFC 7541 3, 6).

use super::huffman::Fault;
use super::mark::Mark;
use super::table::{Entry, Table};
use super::{FIELD_OVERHEAD_BYTES, huffman, integer, static_table};
use crate::Error;
use crate::h1::{FIELDS_CEILING, FieldSlot, Span};

/// Where decoded fields go: bytes for names and values, and a slot for each field with offsets into them.
#[derive(Debug)]
pub struct FieldBuf<'a> {
    bytes: &'a mut [u8],
    slots: &'a mut [FieldSlot],
    /// What is known of each field, for those who want to know it.
    marks: Option<&'a mut [Mark; FIELDS_CEILING]>,
    list_bytes_max: usize,
    /// Bytes used.
    len: usize,
    /// Slots used.
    fields: usize,
    extent: Extent,
    /// Bytes of fields that were decoded though the list was lost.
    lost_bytes: usize,
}

/// Whether the list has outgrown its limits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Extent {
    Within,
    /// The fields are lost; only the dynamic table is kept true.
    Over,
}

impl<'a> FieldBuf<'a> {
    /// Empty. At most `list_bytes_max` bytes, counted with 32 more for each field (RFC 9113 6.5.2), and as many fields
    /// as slots are taken.
    ///
    /// # Panics
    ///
    /// If `bytes` has fewer than `list_bytes_max` bytes, or more than 65,535.
    #[must_use]
    pub fn new(bytes: &'a mut [u8], slots: &'a mut [FieldSlot], list_bytes_max: usize) -> FieldBuf<'a> {
        assert!(bytes.len() >= list_bytes_max && bytes.len() <= usize::from(u16::MAX), "bytes for the whole list");
        FieldBuf { bytes, slots, marks: None, list_bytes_max, len: 0, fields: 0, extent: Extent::Within, lost_bytes: 0 }
    }

    /// The same, with a place for what is known of the fields.
    pub(crate) fn with_marks(self, marks: &'a mut [Mark; FIELDS_CEILING]) -> FieldBuf<'a> {
        debug_assert!(self.slots.len() <= FIELDS_CEILING, "a mark for each slot");
        FieldBuf { marks: Some(marks), ..self }
    }

    /// The same for a list that is lost from the start.
    pub(super) fn lost(self) -> FieldBuf<'a> {
        FieldBuf { extent: Extent::Over, ..self }
    }

    /// Bytes of fields that were decoded for the table alone, as the list is lost.
    pub(crate) const fn lost_bytes(&self) -> usize {
        self.lost_bytes
    }

    /// The bytes that the slots point into.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// One slot for each field, in order. Empty if the list is over its limits.
    #[must_use]
    pub fn slots(&self) -> &[FieldSlot] {
        &self.slots[..self.fields]
    }

    /// Whether the list was larger than allowed: it is lost then, as RFC 9113 10.5.1 lets a server choose, but the
    /// decoder goes on.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.extent == Extent::Over
    }

    /// Names and values, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.slots().iter().map(|slot| (slot.name().of_head(self.bytes), slot.value().of_head(self.bytes)))
    }

    fn give_up(&mut self) {
        self.extent = Extent::Over;
        (self.len, self.fields) = (0, 0);
    }

    /// Whether one more field of this size is allowed. If not, all is lost.
    fn admit(&mut self, text_len: usize) -> bool {
        if self.extent == Extent::Over {
            return false;
        }
        let size = self.len + text_len + (self.fields + 1) * FIELD_OVERHEAD_BYTES;
        if size > self.list_bytes_max || self.fields == self.slots.len() {
            self.give_up();
            return false;
        }
        true
    }

    /// Appends a field that was admitted, whose name and value stand behind the used bytes.
    #[inline]
    fn push(&mut self, name_len: usize, value_len: usize, mark: Mark) {
        let (name, value) = (Span::new(self.len, name_len), Span::new(self.len + name_len, value_len));
        self.slots[self.fields] =
            FieldSlot { name_at: name.at, name_len: name.len, value_at: value.at, value_len: value.len };
        if let Some(place) = self.marks.as_mut().and_then(|marks| marks.get_mut(self.fields)) {
            *place = mark;
        }
        self.fields += 1;
        self.len += name_len + value_len;
        debug_assert!(self.len <= self.list_bytes_max);
    }

    #[inline]
    fn copy(&mut self, entry: Entry<'_>) {
        if self.admit(entry.text_len()) {
            entry.copy_to(&mut self.bytes[self.len..]);
            self.push(entry.name_len, entry.value_len, entry.mark);
        }
    }
}

/// Decodes the header blocks of one connection, all of them, in order.
///
/// ```
/// use plimsoll_codec::h1::FieldSlot;
/// use plimsoll_codec::hpack::{Decoder, FieldBuf, TABLE_BYTES};
///
/// let mut decoder = Decoder::new(TABLE_BYTES as u16);
/// let (mut table, mut bytes, mut slots) = ([0; TABLE_BYTES], [0; 16_384], [FieldSlot::EMPTY; 100]);
/// let mut fields = FieldBuf::new(&mut bytes, &mut slots, 16_384);
/// decoder.decode(&mut table, &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'], &mut fields)?;
/// assert_eq!(fields.fields().next(), Some((&b":method"[..], &b"GET"[..])));
/// assert_eq!(fields.fields().last(), Some((&b":authority"[..], &b"a"[..])));
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Decoder {
    table: Table,
    table_bytes_max: u16,
}

impl Decoder {
    /// With a dynamic table of at most so many bytes, which is what the peer was told (4,096 if it was told nothing).
    #[must_use]
    pub const fn new(table_bytes_max: u16) -> Decoder {
        Decoder { table: Table::new(table_bytes_max), table_bytes_max }
    }

    /// Bytes of the dynamic table's entries, as RFC 7541 4.1 counts them.
    #[must_use]
    pub const fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// What tells whether the table was changed in between.
    pub(crate) const fn state(&self) -> (u32, usize, usize) {
        (self.table.inserted(), self.table.len(), self.table.size_max())
    }

    /// The bytes that [`pack`](Decoder::pack) needs.
    #[must_use]
    pub const fn packed_bytes(&self) -> usize {
        self.table.packed_bytes()
    }

    /// Moves the dynamic table from its storage to the front of `to`, where it takes
    /// [`packed_bytes`](Decoder::packed_bytes): for a connection that waits. Nothing may be decoded before
    /// [`unpack`](Decoder::unpack). Returns how many bytes that were.
    ///
    /// # Panics
    ///
    /// If `to` is too short.
    pub fn pack(&mut self, storage: &mut [u8], to: &mut [u8]) -> usize {
        self.table.pack(storage, to)
    }

    /// Moves the dynamic table back to a storage, of the same size as before. Returns how many bytes it took.
    ///
    /// # Panics
    ///
    /// If `from` is shorter than what was packed.
    pub fn unpack(&self, from: &[u8], storage: &mut [u8]) -> usize {
        self.table.unpack(from, storage)
    }

    /// Entries of the dynamic table.
    #[must_use]
    pub const fn table_len(&self) -> usize {
        self.table.len()
    }

    /// Decodes one whole header block. `storage` holds the dynamic table, see the [module](super).
    ///
    /// # Errors
    ///
    /// [`Error::HpackTruncated`], [`Error::HpackIndexInvalid`], [`Error::HpackIntegerOverflow`],
    /// [`Error::HpackHuffmanInvalid`] and [`Error::HpackSizeUpdateInvalid`] are COMPRESSION_ERROR: the table is not the
    /// peer's any more, and the connection must end. A list over its limits is no error, see [`FieldBuf::is_over`].
    ///
    /// # Panics
    ///
    /// If `storage` or the bytes of `out` are shorter than the table's size.
    pub fn decode(&mut self, storage: &mut [u8], block: &[u8], out: &mut FieldBuf<'_>) -> Result<(), Error> {
        assert!(storage.len() >= usize::from(self.table_bytes_max), "storage for the whole table");
        assert!(out.bytes.len() >= usize::from(self.table_bytes_max), "bytes for any entry of the table");
        let mut rest = block;
        let mut size_updates = 0;
        // Size updates come before the first field (RFC 7541 4.2).
        while let Some(first) = rest.first()
            && first & 0xe0 == 0x20
        {
            size_updates += 1;
            if size_updates > SIZE_UPDATES_MAX {
                return Err(Error::HpackSizeUpdateInvalid);
            }
            rest = &rest[self.size_update(storage, rest)?..];
        }
        self.fields(storage, rest, out)
    }

    /// Takes a size update. Returns how many bytes it had.
    pub(super) fn size_update(&mut self, storage: &[u8], block: &[u8]) -> Result<usize, Error> {
        let (size, len) = integer::decode(block, 5)?;
        if size > usize::from(self.table_bytes_max) {
            return Err(Error::HpackSizeUpdateInvalid);
        }
        self.table.resize(storage, size as u16);
        Ok(len)
    }

    /// Decodes whole fields, behind the size updates of a block.
    #[inline]
    pub(super) fn fields(&mut self, storage: &mut [u8], block: &[u8], out: &mut FieldBuf<'_>) -> Result<(), Error> {
        let mut rest = block;
        while let Some(&first) = rest.first() {
            let len = match first {
                // An index of one byte, which most are.
                0x81..=0xfe => {
                    out.copy(self.entry(storage, usize::from(first & 0x7f))?);
                    1
                }
                0x80.. => self.indexed(storage, rest, out)?,
                0x40.. => self.literal(storage, rest, 6, out)?,
                0x20.. => return Err(Error::HpackSizeUpdateInvalid),
                _ => self.literal(storage, rest, 4, out)?,
            };
            rest = &rest[len..];
        }
        Ok(())
    }

    fn indexed(&self, storage: &[u8], block: &[u8], out: &mut FieldBuf<'_>) -> Result<usize, Error> {
        let (index, len) = integer::decode(block, 7)?;
        out.copy(self.entry(storage, index)?);
        Ok(len)
    }

    /// Drops all entries of the table.
    pub(super) fn clear(&mut self) {
        self.table.clear();
    }

    #[inline]
    pub(super) fn entry<'s>(&self, storage: &'s [u8], index: usize) -> Result<Entry<'s>, Error> {
        let entry = match index {
            0..=static_table::LEN => static_table::get(index),
            _ => self.table.get(storage, index - static_table::LEN - 1),
        };
        entry.ok_or(Error::HpackIndexInvalid)
    }

    /// A literal, to be inserted if its index has a prefix of six bits.
    fn literal(
        &mut self,
        storage: &mut [u8],
        block: &[u8],
        prefix_bits: u32,
        out: &mut FieldBuf<'_>,
    ) -> Result<usize, Error> {
        let mut texts = self.texts(storage, block, prefix_bits, out)?;
        let is_inserted = prefix_bits == 6;
        let text_len = texts.name_len.zip(texts.value_len).map(|(name, value)| name + value);
        let admitted = text_len.is_some_and(|text_len| out.admit(text_len));
        if !admitted {
            out.give_up();
            if is_inserted && texts.from != 0 {
                // The list is lost, so all its bytes are free for the one entry that the table may have to take.
                texts = self.texts(storage, block, prefix_bits, out)?;
            }
        }
        debug_assert!(admitted || out.is_over());
        match texts.name_len.zip(texts.value_len) {
            Some((name_len, value_len)) => {
                if !admitted {
                    out.lost_bytes += name_len + value_len;
                }
                let (name, rest) = out.bytes[texts.from..].split_at(name_len);
                let value = &rest[..value_len];
                let mark = texts.name.unwrap_or_else(|| Mark::of_name(name)).with_value(value);
                if is_inserted {
                    self.table.insert(storage, name, value, mark);
                }
                if admitted {
                    out.push(name_len, value_len, mark);
                }
            }
            // Larger than all the bytes there are, which are more than the table has.
            None if is_inserted => self.table.clear(),
            None => {}
        }
        Ok(texts.consumed)
    }

    /// Decodes name and value behind the used bytes.
    fn texts(&self, storage: &[u8], block: &[u8], prefix_bits: u32, out: &mut FieldBuf<'_>) -> Result<Texts, Error> {
        let (index, mut consumed) = integer::decode(block, prefix_bits)?;
        let room = &mut out.bytes[out.len..];
        let mut known = None;
        let name_len = if index == 0 {
            let (len, written) = string(&block[consumed..], room)?;
            consumed += len;
            written
        } else {
            let entry = self.entry(storage, index)?;
            known = Some(entry.mark);
            let place = room.get_mut(..entry.name_len);
            place.map(|place| {
                place.copy_from_slice(entry.name());
                entry.name_len
            })
        };
        let (len, value_len) = string(&block[consumed..], &mut room[name_len.unwrap_or(0)..])?;
        consumed += len;
        Ok(Texts { from: out.len, name: known, name_len, value_len, consumed })
    }
}

/// What was read of a literal; a length is `None` if the text had no room.
#[derive(Copy, Clone)]
struct Texts {
    from: usize,
    /// What is known of a name that is in a table.
    name: Option<Mark>,
    name_len: Option<usize>,
    value_len: Option<usize>,
    consumed: usize,
}

/// Reads a string (RFC 7541 5.2). Returns how many bytes of the block it took, and how many of `out`, if they were
/// enough.
#[inline]
fn string(block: &[u8], out: &mut [u8]) -> Result<(usize, Option<usize>), Error> {
    let is_huffman = block.first().ok_or(Error::HpackTruncated)? & 0x80 != 0;
    let (len, prefix_len) = integer::decode(block, 7)?;
    let text = block.get(prefix_len..prefix_len + len).ok_or(Error::HpackTruncated)?;
    let written = if is_huffman {
        match huffman::decode(text, out) {
            Ok(written) => Some(written),
            Err(Fault::Full) => None,
            Err(Fault::Invalid) => return Err(Error::HpackHuffmanInvalid),
        }
    } else {
        let place = out.get_mut(..len);
        place.map(|place| {
            place.copy_from_slice(text);
            len
        })
    };
    Ok((prefix_len + len, written))
}

/// More size updates than that at the start of a block say nothing (RFC 7541 4.2).
pub const SIZE_UPDATES_MAX: u32 = 2;
