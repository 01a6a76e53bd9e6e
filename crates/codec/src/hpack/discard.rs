//! Header blocks over every limit, in parts: what they do to the dynamic table is done, and their fields are lost.
//!
//! ```text
//!   Between --a literal that is too long for the table--> Name --its bytes--> ValueLength --> Value
//!                   Value --its bytes--> Between
//! ```
//!
//! A field is decoded when it is there as a whole. One that no table can keep is passed over as it comes, so that no
//! more than [`PART_BYTES_MAX`] ever have to be there at a time. Of strings that are passed over the Huffman code is
//! not checked.

use super::decoder::{Decoder, FieldBuf, SIZE_UPDATES_MAX};
use super::{TABLE_BYTES, integer};
use crate::Error;

/// How far a block was discarded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discard {
    place: Place,
    /// Size updates that may still come: none behind the first field.
    size_updates_left: u8,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Place {
    Between,
    /// So many bytes of a name, and its value.
    Name(u32),
    ValueLength,
    /// So many bytes of a value.
    Value(u32),
}

/// What was done of a block.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discarded {
    /// Bytes of the block.
    pub(crate) consumed: usize,
    /// Bytes that fields were more than their own in the block account for: references to long names make much work of
    /// few bytes.
    pub(crate) excess: usize,
}

/// What comes next in a block.
enum Next {
    /// A field, or a size update, of so many bytes.
    Whole(usize),
    /// More bytes are needed to know.
    Part,
    /// A literal that no table keeps: so many bytes before the place.
    Long(usize, Place),
}

impl Discard {
    /// From the first byte of a block.
    pub(crate) const fn new() -> Discard {
        Discard { place: Place::Between, size_updates_left: SIZE_UPDATES_MAX as u8 }
    }

    /// Whether the block may end here.
    pub(crate) fn is_between(&self) -> bool {
        self.place == Place::Between
    }
}

impl Decoder {
    /// Discards what it can of the next bytes of a block, up to where [`EXCESS_BYTES_MAX`] are in
    /// [excess](Discarded::excess). When none is consumed, more are needed, but never more than [`PART_BYTES_MAX`].
    pub(crate) fn discard(
        &mut self,
        discard: &mut Discard,
        storage: &mut [u8],
        scratch: &mut [u8],
        bytes: &[u8],
    ) -> Result<Discarded, Error> {
        let list_bytes = scratch.len();
        let mut lost = FieldBuf::new(scratch, &mut [], list_bytes).lost();
        let (mut rest, mut excess) = (bytes, 0);
        loop {
            let len = match discard.place {
                Place::Name(left) | Place::Value(left) => {
                    let len = rest.len().min(left as usize);
                    let left = left - len as u32;
                    discard.place = match discard.place {
                        Place::Name(_) if left == 0 => Place::ValueLength,
                        Place::Name(_) => Place::Name(left),
                        _ if left == 0 => Place::Between,
                        _ => Place::Value(left),
                    };
                    len
                }
                Place::ValueLength => match string_head(rest)? {
                    None => break,
                    Some((len, head)) => {
                        discard.place = Place::Value(len as u32);
                        head
                    }
                },
                Place::Between if rest.is_empty() => break,
                Place::Between => match next(rest)? {
                    Next::Part => break,
                    Next::Whole(len) => {
                        let before = lost.lost_bytes();
                        self.discard_one(discard, storage, &rest[..len], &mut lost)?;
                        excess += (lost.lost_bytes() - before).saturating_sub(DECODED_RATIO * len + NAME_BYTES_FREE);
                        len
                    }
                    Next::Long(len, place) => {
                        discard.size_updates_left = 0;
                        self.pass_over(storage, rest)?;
                        discard.place = place;
                        len
                    }
                },
            };
            rest = &rest[len..];
            if excess >= EXCESS_BYTES_MAX || rest.is_empty() && discard.place != Place::Value(0) {
                break;
            }
        }
        Ok(Discarded { consumed: bytes.len() - rest.len(), excess })
    }

    fn discard_one(
        &mut self,
        discard: &mut Discard,
        storage: &mut [u8],
        one: &[u8],
        lost: &mut FieldBuf<'_>,
    ) -> Result<(), Error> {
        if one[0] & 0xe0 == 0x20 {
            let left = discard.size_updates_left.checked_sub(1).ok_or(Error::HpackSizeUpdateInvalid)?;
            discard.size_updates_left = left;
            return self.size_update(storage, one).map(drop);
        }
        discard.size_updates_left = 0;
        self.fields(storage, one, lost)
    }

    /// A literal that no table keeps: if it is one to be kept, it empties the table (RFC 7541 4.4).
    fn pass_over(&mut self, storage: &[u8], literal: &[u8]) -> Result<(), Error> {
        let is_kept = literal[0] & 0x40 != 0;
        let (index, _) = integer::decode(literal, if is_kept { 6 } else { 4 })?;
        if index != 0 {
            self.entry(storage, index)?;
        }
        if is_kept {
            self.clear();
        }
        Ok(())
    }
}

fn next(block: &[u8]) -> Result<Next, Error> {
    let prefix_bits = match block[0] {
        0x80.. => 7,
        0x40.. => 6,
        0x20.. => 5,
        _ => 4,
    };
    let Some((index, mut len)) = whole(integer::decode(block, prefix_bits))? else { return Ok(Next::Part) };
    if matches!(prefix_bits, 5 | 7) {
        return Ok(Next::Whole(len));
    }
    let mut name_len = 0;
    if index == 0 {
        let Some((bytes, head)) = string_head(&block[len..])? else { return Ok(Next::Part) };
        len += head;
        if bytes > ENTRY_ENCODED_BYTES_MAX {
            return Ok(Next::Long(len, Place::Name(bytes as u32)));
        }
        name_len = bytes;
        len += bytes;
    }
    let Some(rest) = block.get(len..) else { return Ok(Next::Part) };
    let Some((bytes, head)) = string_head(rest)? else { return Ok(Next::Part) };
    len += head;
    if name_len + bytes > ENTRY_ENCODED_BYTES_MAX {
        return Ok(Next::Long(len, Place::Value(bytes as u32)));
    }
    len += bytes;
    Ok(if len > block.len() { Next::Part } else { Next::Whole(len) })
}

/// The length of a string, and of what says it. `None` if that is not there as a whole.
fn string_head(bytes: &[u8]) -> Result<Option<(usize, usize)>, Error> {
    whole(integer::decode(bytes, 7))
}

fn whole<T>(decoded: Result<T, Error>) -> Result<Option<T>, Error> {
    match decoded {
        Err(Error::HpackTruncated) => Ok(None),
        decoded => decoded.map(Some),
    }
}

/// What may be decoded of a field for each of its bytes: eight fifths with the shortest codes; and for a name by its
/// index.
const DECODED_RATIO: usize = 2;
const NAME_BYTES_FREE: usize = 128;
/// So many bytes in excess are told of before more is discarded: whoever shows the next part of a block may copy it,
/// and should not for each field.
const EXCESS_BYTES_MAX: usize = 64 * 1_024;
/// The most that name and value of an entry of the table take in a block: no code has more than 30 bits.
const ENTRY_ENCODED_BYTES_MAX: usize = TABLE_BYTES * 30 / 8;
/// The most bytes of a block that have to be there for some of them to be discarded: such an entry, and three integers.
pub(crate) const PART_BYTES_MAX: usize = ENTRY_ENCODED_BYTES_MAX + 3 * 5;
