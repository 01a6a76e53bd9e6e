//! permessage-deflate (RFC 7692 7.2): the payload of a message, deflated and inflated.
//!
//! A [`Deflater`] holds about 256 KiB on the heap and an [`Inflater`] about 48 KiB with the largest window. Where no
//! window is taken over from message to message, either may be made for a message and dropped after it.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use crate::Error;

/// Inflates messages.
///
/// ```
/// use plimsoll_codec::ws::{Deflater, Inflater};
///
/// let (mut packed, mut text) = (Vec::new(), Vec::new());
/// let mut deflater = Deflater::new(15, false)?;
/// deflater.message(b"hello hello hello hello", |bytes| Ok(packed.extend_from_slice(bytes)))?;
/// let mut inflater = Inflater::new(false);
/// let (first, second) = packed.split_at(3);
/// inflater.inflate(first, 1_024, |bytes| Ok(text.extend_from_slice(bytes)))?;
/// inflater.inflate(second, 1_024, |bytes| Ok(text.extend_from_slice(bytes)))?;
/// inflater.finish(1_024, |bytes| Ok(text.extend_from_slice(bytes)))?;
/// assert_eq!(text, b"hello hello hello hello");
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Debug)]
pub struct Inflater {
    stream: Decompress,
    takes_over: bool,
    /// Inflated of this message.
    bytes: u64,
}

impl Inflater {
    /// Bytes of the heap that one has, with the largest window, which it always has.
    pub const HEAP_BYTES: usize = 48 * 1_024;

    /// `takes_over`: messages refer to those before.
    #[must_use]
    pub fn new(takes_over: bool) -> Inflater {
        Inflater { stream: Decompress::new(false), takes_over, bytes: 0 }
    }

    /// Inflates the next part of a message and gives it to `put` in pieces of at most 4 KiB. No message is inflated
    /// beyond `bytes_max`.
    ///
    /// # Errors
    ///
    /// [`Error::WebSocketMessageTooLarge`] as soon as it is, [`Error::WebSocketDeflateInvalid`], and those of `put`.
    /// The connection is then to be closed.
    pub fn inflate(
        &mut self,
        mut input: &[u8],
        bytes_max: u64,
        mut put: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let status = self.stream.decompress(input, &mut piece, FlushDecompress::None);
            let status = status.map_err(|_| Error::WebSocketDeflateInvalid)?;
            let read = (self.stream.total_in() - read) as usize;
            let written = (self.stream.total_out() - written) as usize;
            debug_assert!(read <= input.len() && written <= piece.len(), "no more than there is");
            input = &input[read..];
            self.bytes += written as u64;
            if self.bytes > bytes_max {
                return Err(Error::WebSocketMessageTooLarge);
            }
            if written > 0 {
                put(&piece[..written])?;
            }
            if status == Status::StreamEnd {
                // A final block may be followed by others (RFC 7692 7.2.3.4). These cannot refer to what was before it:
                // the window ends with it here.
                self.stream.reset(false);
            } else if written < piece.len() && (input.is_empty() || (read == 0 && written == 0)) {
                return if input.is_empty() { Ok(()) } else { Err(Error::WebSocketDeflateInvalid) };
            }
        }
    }

    /// The message is complete: inflates what is left of it.
    ///
    /// # Errors
    ///
    /// As [`inflate`](Self::inflate).
    pub fn finish(&mut self, bytes_max: u64, put: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.inflate(TAIL, bytes_max, put)?;
        self.bytes = 0;
        if !self.takes_over {
            self.stream.reset(false);
        }
        Ok(())
    }
}

/// Deflates messages.
#[derive(Debug)]
pub struct Deflater {
    stream: Compress,
    takes_over: bool,
}

impl Deflater {
    /// Bytes of the heap that one has, by its window.
    #[must_use]
    pub const fn heap_bytes(window_bits: u8) -> usize {
        // Window and chains grow with the window; hashes and symbols do not.
        (4 << window_bits) + 160 * 1_024
    }

    /// `window_bits`: 9 to 15. `takes_over`: messages refer to those before.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`] for another window.
    pub fn new(window_bits: u8, takes_over: bool) -> Result<Deflater, Error> {
        if !(9..=15).contains(&window_bits) {
            return Err(Error::LimitInvalid);
        }
        let stream = Compress::new_with_window_bits(flate2::Compression::fast(), false, window_bits);
        Ok(Deflater { stream, takes_over })
    }

    /// Deflates a whole message and gives it to `put` in pieces of at most 4 KiB.
    ///
    /// # Errors
    ///
    /// Those of `put`. The connection is then to be closed.
    pub fn message(&mut self, mut input: &[u8], mut put: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        // The end of a message is not sent: the last four bytes are held back until it is known that more follow.
        let (mut piece, mut held) = ([0; PIECE_BYTES], 0);
        loop {
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let status = self.stream.compress(input, &mut piece[held..], FlushCompress::Sync);
            status.map_err(|_| Error::StateMisuse)?;
            input = &input[(self.stream.total_in() - read) as usize..];
            let filled = held + (self.stream.total_out() - written) as usize;
            debug_assert!(filled <= piece.len(), "no more than there is room for");
            held = filled.min(TAIL.len());
            if filled > held {
                put(&piece[..filled - held])?;
            }
            piece.copy_within(filled - held..filled, 0);
            if filled < piece.len() && input.is_empty() {
                break;
            }
        }
        debug_assert_eq!(&piece[..held], TAIL, "a flush ends so");
        if !self.takes_over {
            self.stream.reset();
        }
        Ok(())
    }
}

/// What a message ends with and does not send (RFC 7692 7.2.1).
const TAIL: &[u8] = &[0, 0, 0xFF, 0xFF];
const PIECE_BYTES: usize = 4_096;
