//! From fields to header blocks (RFC 7541 6).

use http::StatusCode;

use super::mark::Mark;
use super::table::Table;
use super::{TABLE_BYTES, huffman, integer, static_table};
use crate::date::DATE_BYTES;
use crate::h1::{Fields, Full, ResponseHead, Sink, decimal};

/// What the dynamic tables on the way learn of a field (RFC 7541 6.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It is put into the table: for what many responses have in common.
    Incremental,
    /// It is not: for what differs from one response to the next.
    Without,
    /// Nobody may put it into a table, proxies neither: for secrets (RFC 7541 7.1.3).
    Never,
}

impl Indexing {
    /// What fits a field of a response, by its name in lower case.
    #[must_use]
    pub fn of(name: &[u8]) -> Indexing {
        match name {
            b"set-cookie" | b"authorization" | b"proxy-authorization" | b"cookie" | b"authentication-info" => {
                Indexing::Never
            }
            b"content-type"
            | b"server"
            | b"cache-control"
            | b"vary"
            | b"content-encoding"
            | b"accept-ranges"
            | b"allow"
            | b"alt-svc"
            | b"content-language"
            | b"strict-transport-security"
            | b"content-security-policy"
            | b"referrer-policy"
            | b"via"
            | b"date" => Indexing::Incremental,
            _ if name.starts_with(b"access-control-") || name.starts_with(b"x-content-") => Indexing::Incremental,
            _ => Indexing::Without,
        }
    }
}

/// Encodes the header blocks of one connection, in the order in which they are sent.
///
/// Text that enters the table is sent once, and compressed. All other text is sent as it is: a `memcpy` instead of a
/// bit shifter, for a few bytes more.
///
/// ```
/// use plimsoll_codec::hpack::{Encoder, Indexing};
///
/// let mut encoder = Encoder::new(512);
/// let mut table = [0; 512];
/// let mut sizes = Vec::new();
/// for _ in 0..2 {
///     let mut block = Vec::new();
///     encoder.begin(&mut table, &mut block)?;
///     encoder.status(http::StatusCode::OK, &mut block)?;
///     encoder.field(&mut table, b"content-type", b"text/html", Indexing::Incremental, &mut block)?;
///     sizes.push(block.len());
/// }
/// assert_eq!(sizes, [13, 2]);
/// # Ok::<(), plimsoll_codec::h1::Full>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Encoder {
    table: Table,
    /// The most that we use, whatever the peer allows.
    table_bytes_max: u16,
    update: SizeUpdate,
    /// The date that was inserted last, and its number among all entries.
    date: Option<([u8; DATE_BYTES], u32)>,
    memo: Option<Memo>,
}

/// What the last response's status, date and fields became: the same again, as long as nothing was inserted after it.
/// Most responses of a connection differ in their length alone.
#[derive(Copy, Clone, Debug)]
struct Memo {
    status: StatusCode,
    has_date: bool,
    /// Entries that had been inserted by then.
    inserted: u32,
    fields_len: u8,
    block_len: u8,
    fields: [u8; MEMO_FIELDS_BYTES],
    block: [u8; MEMO_BLOCK_BYTES],
}

/// Writes to a sink, and remembers what was written if it is short.
struct Recorder<'s, S: ?Sized> {
    sink: &'s mut S,
    block: [u8; MEMO_BLOCK_BYTES],
    len: usize,
}

impl<S: Sink + ?Sized> Sink for Recorder<'_, S> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if let Some(place) = self.block.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.len += bytes.len();
        self.sink.put(bytes)
    }
}

/// What the next block has to say of the table's size (RFC 7541 4.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum SizeUpdate {
    None,
    /// The smallest size since the last block; the present one is the table's.
    Due {
        smallest: u16,
    },
}

impl Encoder {
    /// With a dynamic table of at most so many bytes, and never more than [`TABLE_BYTES`]. Less than that is said in
    /// the first block.
    #[must_use]
    pub const fn new(table_bytes_max: u16) -> Encoder {
        let table_bytes_max = if table_bytes_max as usize > TABLE_BYTES { TABLE_BYTES as u16 } else { table_bytes_max };
        let update = if (table_bytes_max as usize) < TABLE_BYTES {
            SizeUpdate::Due { smallest: table_bytes_max }
        } else {
            SizeUpdate::None
        };
        Encoder { table: Table::new(table_bytes_max), table_bytes_max, update, date: None, memo: None }
    }

    /// Bytes of the dynamic table's entries, as RFC 7541 4.1 counts them.
    #[must_use]
    pub const fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// As [`Decoder::packed_bytes`](super::Decoder::packed_bytes).
    #[must_use]
    pub const fn packed_bytes(&self) -> usize {
        self.table.packed_bytes()
    }

    /// As [`Decoder::pack`](super::Decoder::pack).
    ///
    /// # Panics
    ///
    /// If `to` is too short.
    pub fn pack(&mut self, storage: &mut [u8], to: &mut [u8]) -> usize {
        self.table.pack(storage, to)
    }

    /// As [`Decoder::unpack`](super::Decoder::unpack).
    ///
    /// # Panics
    ///
    /// If `from` is shorter than what was packed.
    pub fn unpack(&self, from: &[u8], storage: &mut [u8]) -> usize {
        self.table.unpack(from, storage)
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE. A larger one than ours changes nothing.
    pub fn set_peer_table_bytes(&mut self, storage: &[u8], bytes: u32) {
        let size = u16::try_from(bytes).unwrap_or(u16::MAX).min(self.table_bytes_max);
        if usize::from(size) == self.table.size_max() {
            return;
        }
        self.table.resize(storage, size);
        self.memo = None;
        let smallest = match self.update {
            SizeUpdate::None => size,
            SizeUpdate::Due { smallest } => smallest.min(size),
        };
        self.update = SizeUpdate::Due { smallest };
    }

    /// Begins a header block. The other methods write one field each; fields that begin with a colon come first.
    ///
    /// If any of them fails, the table is not the peer's any more: the block and the connection have to be given up.
    ///
    /// # Errors
    ///
    /// [`Full`] if the sink has no room.
    pub fn begin<S: Sink + ?Sized>(&mut self, storage: &mut [u8], sink: &mut S) -> Result<(), Full> {
        debug_assert!(storage.len() >= self.table.size_max(), "storage for the whole table");
        if let SizeUpdate::Due { smallest } = std::mem::replace(&mut self.update, SizeUpdate::None) {
            if usize::from(smallest) < self.table.size_max() {
                integer::encode(sink, 0x20, 5, smallest.into())?;
            }
            integer::encode(sink, 0x20, 5, self.table.size_max())?;
        }
        Ok(())
    }

    /// Writes `:status`: one byte for the seven most frequent codes, five for the others.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn status<S: Sink + ?Sized>(&self, status: StatusCode, sink: &mut S) -> Result<(), Full> {
        let index = match status.as_u16() {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                sink.put(&[STATUS_INDEX, 3])?;
                return sink.put(status.as_str().as_bytes());
            }
        };
        sink.put(&[0x80 | index])
    }

    /// Writes `content-length`.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn content_length<S: Sink + ?Sized>(&self, length: u64, sink: &mut S) -> Result<(), Full> {
        let (digits, from) = decimal(length);
        integer::encode(sink, 0, 4, CONTENT_LENGTH_INDEX)?;
        integer::encode(sink, 0, 7, digits.len() - from)?;
        sink.put(&digits[from..])
    }

    /// Writes `retry-after` with so many seconds, one digit, which no table keeps.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn retry_after<S: Sink + ?Sized>(&self, seconds: u8, sink: &mut S) -> Result<(), Full> {
        debug_assert!(seconds < 10, "one digit");
        integer::encode(sink, 0, 4, RETRY_AFTER_INDEX)?;
        integer::encode(sink, 0, 7, 1)?;
        sink.put(&[b'0' + seconds])
    }

    /// Writes `date`: whole once a second, as a reference in all other responses of the same second.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn date<S: Sink + ?Sized>(
        &mut self,
        storage: &mut [u8],
        date: &[u8; DATE_BYTES],
        sink: &mut S,
    ) -> Result<(), Full> {
        if let Some((cached, number)) = &self.date
            && cached == date
        {
            let index = self.table.inserted().wrapping_sub(*number).wrapping_sub(1) as usize;
            if index < self.table.len() {
                return integer::encode(sink, 0x80, 7, static_table::LEN + 1 + index);
            }
        }
        let number = self.table.inserted();
        self.field(storage, b"date", date, Indexing::Incremental, sink)?;
        self.date = (self.table.inserted() != number).then_some((*date, number));
        Ok(())
    }

    /// Writes the whole block of a response head: status, date, the program's own fields, and the length.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn response<S: Sink + ?Sized>(
        &mut self,
        storage: &mut [u8],
        head: &ResponseHead<'_>,
        sink: &mut S,
    ) -> Result<(), Full> {
        match self.memo.as_ref().filter(|memo| self.is_same(memo, head)) {
            Some(memo) => sink.put(&memo.block[..usize::from(memo.block_len)])?,
            None => self.response_anew(storage, head, sink)?,
        }
        match head.content_length() {
            Some(length) => self.content_length(length, sink),
            None => Ok(()),
        }
    }

    /// Whether the block of the memo says the same as this head, but for its length.
    fn is_same(&self, memo: &Memo, head: &ResponseHead<'_>) -> bool {
        let is_date = match head.date_value() {
            Some(date) => memo.has_date && self.date.is_some_and(|(known, _)| known == *date),
            None => !memo.has_date,
        };
        memo.inserted == self.table.inserted()
            && self.update == SizeUpdate::None
            && memo.status == head.status()
            && is_date
            && memo.fields[..usize::from(memo.fields_len)] == *head.own_fields().as_bytes()
    }

    fn response_anew<S: Sink + ?Sized>(
        &mut self,
        storage: &mut [u8],
        head: &ResponseHead<'_>,
        sink: &mut S,
    ) -> Result<(), Full> {
        self.begin(storage, sink)?;
        let inserted = self.table.inserted();
        let mut recorder = Recorder { sink, block: [0; MEMO_BLOCK_BYTES], len: 0 };
        self.status(head.status(), &mut recorder)?;
        if let Some(date) = head.date_value() {
            self.date(storage, date, &mut recorder)?;
        }
        self.fields(storage, head.own_fields(), &mut recorder)?;
        let raw = head.own_fields().as_bytes();
        if head.status().is_informational() {
            // What was remembered of a final head is more likely to come again.
            return Ok(());
        }
        let is_short = raw.len() <= MEMO_FIELDS_BYTES && recorder.len <= MEMO_BLOCK_BYTES;
        // What was inserted now is a reference the next time. A date that no table keeps is not known again.
        let is_stable = inserted == self.table.inserted() && head.date_value().is_none_or(|_| self.date.is_some());
        self.memo = (is_short && is_stable).then(|| {
            let mut fields = [0; MEMO_FIELDS_BYTES];
            fields[..raw.len()].copy_from_slice(raw);
            Memo {
                status: head.status(),
                has_date: head.date_value().is_some(),
                inserted,
                fields_len: raw.len() as u8,
                block_len: recorder.len as u8,
                fields,
                block: recorder.block,
            }
        });
        Ok(())
    }

    /// Writes checked fields, each as its name asks for. Names are put into lower case; fields that only have a meaning
    /// for an HTTP/1 connection are left out (RFC 9113 8.2.2).
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn fields<S: Sink + ?Sized>(
        &mut self,
        storage: &mut [u8],
        fields: Fields<'_>,
        sink: &mut S,
    ) -> Result<(), Full> {
        let mut lower = [0; NAME_BYTES_CHUNK];
        for (name, value) in fields.iter() {
            let Some(place) = lower.get_mut(..name.len()) else {
                long_name(name, value, sink)?;
                continue;
            };
            place.copy_from_slice(name);
            place.make_ascii_lowercase();
            let name = &*place;
            if !matches!(name, b"keep-alive" | b"proxy-connection" | b"upgrade") {
                self.field(storage, name, value, Indexing::of(name), sink)?;
            }
        }
        Ok(())
    }

    /// Writes a field whose name is in lower case.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn field<S: Sink + ?Sized>(
        &mut self,
        storage: &mut [u8],
        name: &[u8],
        value: &[u8],
        indexing: Indexing,
        sink: &mut S,
    ) -> Result<(), Full> {
        debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "names are in lower case");
        let name_index = static_table::find_name(name).unwrap_or(0);
        let indexing = match indexing {
            Indexing::Incremental if name.len() + value.len() > self.table.size_max() / 4 => Indexing::Without,
            indexing => indexing,
        };
        if indexing == Indexing::Incremental {
            if let Some(index) = self.table.find(storage, name, value) {
                return integer::encode(sink, 0x80, 7, static_table::LEN + 1 + index);
            }
            integer::encode(sink, 0x40, 6, name_index)?;
            if name_index == 0 {
                compressed(name, sink)?;
            }
            compressed(value, sink)?;
            self.table.insert(storage, name, value, Mark::NONE);
            return Ok(());
        }
        integer::encode(sink, if indexing == Indexing::Never { 0x10 } else { 0 }, 4, name_index)?;
        if name_index == 0 {
            plain(name, sink)?;
        }
        plain(value, sink)
    }
}

/// A field with a name that is longer than any that is known: piece by piece.
#[cold]
fn long_name<S: Sink + ?Sized>(name: &[u8], value: &[u8], sink: &mut S) -> Result<(), Full> {
    sink.put(&[0])?;
    integer::encode(sink, 0, 7, name.len())?;
    for piece in name.chunks(NAME_BYTES_CHUNK) {
        let mut lower = [0; NAME_BYTES_CHUNK];
        lower[..piece.len()].copy_from_slice(piece);
        lower.make_ascii_lowercase();
        sink.put(&lower[..piece.len()])?;
    }
    plain(value, sink)
}

fn plain<S: Sink + ?Sized>(text: &[u8], sink: &mut S) -> Result<(), Full> {
    integer::encode(sink, 0, 7, text.len())?;
    sink.put(text)
}

/// Writes a string with the Huffman code, unless that would be longer.
fn compressed<S: Sink + ?Sized>(text: &[u8], sink: &mut S) -> Result<(), Full> {
    let len = huffman::encoded_len(text);
    if len >= text.len() {
        return plain(text, sink);
    }
    integer::encode(sink, 0x80, 7, len)?;
    for byte in huffman::encode(text) {
        sink.put(&[byte])?;
    }
    Ok(())
}

/// `:status` in the static table, as a literal that is not indexed.
const STATUS_INDEX: u8 = 8;
const CONTENT_LENGTH_INDEX: usize = 28;
/// The same of `retry-after`.
const RETRY_AFTER_INDEX: usize = 53;
/// Longer fields of a program are not remembered, nor are longer blocks.
const MEMO_FIELDS_BYTES: usize = 96;
const MEMO_BLOCK_BYTES: usize = 32;
/// Names are put into lower case in pieces of this size.
const NAME_BYTES_CHUNK: usize = 64;
