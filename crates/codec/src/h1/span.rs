//! Offsets into a head, so that what was parsed stays true when the bytes are copied elsewhere.

/// A range of a head: where it starts and how long it is, relative to the first byte of the request line.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub at: u16,
    /// Length in bytes.
    pub len: u16,
}

impl Span {
    pub(crate) fn new(at: usize, len: usize) -> Span {
        debug_assert!(at + len <= usize::from(u16::MAX), "a head has at most 65,535 bytes");
        Span { at: at as u16, len: len as u16 }
    }

    /// The span of `part`, which is a sub-slice of `whole`.
    pub(super) fn of(whole: &[u8], part: &[u8]) -> Span {
        let at = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        debug_assert!(at + part.len() <= whole.len(), "part is within whole");
        Span::new(at, part.len())
    }

    /// The bytes of the span.
    ///
    /// # Panics
    ///
    /// If `head` is shorter than the head that the span was made for.
    #[must_use]
    pub fn of_head(self, head: &[u8]) -> &[u8] {
        let at = usize::from(self.at);
        &head[at..at + usize::from(self.len)]
    }

    /// The range as `usize`.
    #[must_use]
    pub fn range(self) -> std::ops::Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.len)
    }
}

/// Where one field line keeps its name and its value: 8 bytes.
///
/// Offsets are relative to the first byte of the request line. The value has no white space around it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSlot {
    /// Offset of the name.
    pub name_at: u16,
    /// Length of the name, 1 or more.
    pub name_len: u16,
    /// Offset of the value.
    pub value_at: u16,
    /// Length of the value, 0 or more.
    pub value_len: u16,
}

impl FieldSlot {
    /// A slot that is not filled yet.
    pub const EMPTY: FieldSlot = FieldSlot { name_at: 0, name_len: 0, value_at: 0, value_len: 0 };

    /// The slot as bytes, for tables that are kept beside the head in one buffer.
    ///
    /// ```
    /// use plimsoll_codec::h1::FieldSlot;
    ///
    /// let slot = FieldSlot { name_at: 16, name_len: 4, value_at: 22, value_len: 1 };
    /// assert_eq!(FieldSlot::from_bytes(slot.to_bytes()), slot);
    /// ```
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let bits = self.name_at as u64
            | (self.name_len as u64) << 16
            | (self.value_at as u64) << 32
            | (self.value_len as u64) << 48;
        bits.to_le_bytes()
    }

    /// The inverse of [`FieldSlot::to_bytes`].
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> FieldSlot {
        let bits = u64::from_le_bytes(bytes);
        FieldSlot {
            name_at: bits as u16,
            name_len: (bits >> 16) as u16,
            value_at: (bits >> 32) as u16,
            value_len: (bits >> 48) as u16,
        }
    }

    pub(crate) fn name(self) -> Span {
        Span { at: self.name_at, len: self.name_len }
    }

    pub(crate) fn value(self) -> Span {
        Span { at: self.value_at, len: self.value_len }
    }
}

const _: () = assert!(size_of::<FieldSlot>() == 8);
