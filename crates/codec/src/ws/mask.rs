//! The mask on what clients send (RFC 6455 5.3).

/// A masking key, and how far into a payload it has been applied. To mask and to unmask are the same.
///
/// ```
/// use plimsoll_codec::ws::Mask;
///
/// let mut bytes = *b"any split gives the same";
/// let mut masked = bytes;
/// Mask::new([1, 2, 3, 4]).apply(&mut masked);
/// let (first, second) = bytes.split_at_mut(7);
/// let mut mask = Mask::new([1, 2, 3, 4]);
/// mask.apply(first);
/// mask.apply(second);
/// assert_eq!(bytes, masked);
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The key, turned so that its first byte is for the next byte of the payload.
    key: [u8; 4],
}

impl Mask {
    /// A mask at the beginning of a payload.
    #[must_use]
    pub const fn new(key: [u8; 4]) -> Mask {
        Mask { key }
    }

    /// Applies the mask to the next bytes of the payload.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        let [a, b, c, d] = self.key;
        let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        // Whole words, wherever they begin: the compiler makes vectors of them.
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = (u64::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
        }
        debug_assert!(rest.len() < 8, "the words took the others");
        for (byte, key) in rest.iter_mut().zip(self.key.iter().cycle()) {
            *byte ^= key;
        }
        self.key.rotate_left(rest.len() % 4);
    }
}
