//! What comes out of a connection, and the memory it works in.

use super::request::Judged;
use super::{Repeat, Stream, StreamKey};
use crate::Error;
use crate::h1::{FieldSlot, RequestView};

/// The caller's memory. The first three belong to one connection: the same bytes and slots are passed to every call.
/// The others are written to and read within a turn, so that one set serves all connections of a worker.
#[derive(Debug)]
pub struct Storage<'a> {
    /// Slots of streams. A connection can begin with few and get more, see [`Event::NeedStreams`].
    pub streams: &'a mut [Stream],
    /// [`TABLE_BYTES`](crate::hpack::TABLE_BYTES).
    pub decoder_table: &'a mut [u8],
    /// As many bytes as [`Limits::encoder_table_bytes_max`](super::Limits::encoder_table_bytes_max) says.
    pub encoder_table: &'a mut [u8],
    /// Scratch: [`Limits::scratch_bytes`](super::Limits::scratch_bytes). A request's text is in there until the next
    /// call.
    pub bytes: &'a mut [u8],
    /// Scratch: as many as a list may have fields. A request's fields are in there until the next call.
    pub slots: &'a mut [FieldSlot],
    /// Scratch: the head of the request that is in the other two. Nobody but the codec may write to those in between.
    pub repeat: &'a mut Repeat,
}

impl Storage<'_> {
    /// The request of the last event, for reading or copying. Its method and the like are in
    /// [`RequestView::request`], where [`RequestHead::upgrade`](crate::h1::RequestHead::upgrade) is `:protocol` of an
    /// extended CONNECT (RFC 8441).
    #[must_use]
    pub fn view(&self) -> RequestView<'_> {
        let (view, _) = request_view(self.bytes, self.slots, self.repeat);
        view
    }

    /// Names and values of the trailers of the last event.
    pub fn trailers(&self, fields: u16) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.slots[..usize::from(fields)]
            .iter()
            .map(|slot| (slot.name().of_head(self.bytes), slot.value().of_head(self.bytes)))
    }
}

/// As [`Storage::view`], from the scratch memory alone, with the slots of the request's fields.
///
/// # Panics
///
/// If it is not that of the last event.
#[must_use]
pub fn request_view<'s>(
    bytes: &'s [u8],
    slots: &'s [FieldSlot],
    repeat: &'s Repeat,
) -> (RequestView<'s>, &'s [FieldSlot]) {
    let Judged { head, pseudo_fields, .. } = repeat.request();
    let (first, rest) = slots.split_at(*pseudo_fields);
    let fields = &rest[..usize::from(head.fields)];
    // The text is as long as the list was, not as the scratch memory: who copies it should not copy that. Its last
    // value ends it.
    let end = fields.last().or(first.last()).map_or(0, |slot| slot.value().range().end);
    debug_assert!(first.iter().chain(fields).all(|slot| slot.value().range().end <= end), "they follow each other");
    let text = &bytes[..end];
    (RequestView::new(text, fields, head), fields)
}

/// How much of the input a step has used, and what it means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes at the front of the input that are done with.
    pub consumed: usize,
    /// What they mean.
    pub event: Event,
}

/// What a peer did. Offsets are into the scratch memory or the input, whose bytes the caller holds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Something that only concerns the codec. Step on.
    Progress,
    /// The input ends within a frame; go on when there are at least so many bytes, those presented now included.
    NeedMore {
        /// Bytes from the first that was not consumed.
        bytes: usize,
    },
    /// So many control frames wait to be sent that nothing more is read before
    /// [`Connection::output_sent`](super::Connection::output_sent).
    NeedOutput,
    /// A new stream, but no slot. Come back with more slots, or [refuse](super::Connection::refuse_next) it.
    NeedStreams,
    /// A request. [`Storage::view`] reads it.
    Request {
        /// Its stream, which has a slot now.
        stream: StreamKey,
        /// No body and no trailers follow.
        ends: bool,
    },
    /// A part of a body: all that the input has of a DATA frame. Nothing of it is consumed until
    /// [`Connection::take_data`](super::Connection::take_data) says so: who has nothing reserved for it stops here, and
    /// the connection reads no further.
    Data {
        /// Its stream.
        stream: StreamKey,
        /// Bytes at the front of the input, one or more.
        bytes: usize,
        /// Bytes of the frame that are still to come, those included; what a reservation has to be good for.
        frame_bytes: usize,
    },
    /// The end of a request that had a body.
    End {
        /// Its stream.
        stream: StreamKey,
    },
    /// Trailers, which end a request. [`Storage::trailers`] reads them.
    Trailers {
        /// Their stream.
        stream: StreamKey,
        /// How many.
        fields: u16,
    },
    /// A stream is over before its time. Its slot is kept until [`Connection::forget`](super::Connection::forget).
    Reset {
        /// The stream.
        stream: StreamKey,
        /// By whom and why.
        cause: ResetCause,
    },
    /// Some window is larger than before: what waited for it may be sent.
    Writable,
    /// The peer takes no more streams of ours; it may still finish its requests.
    PeerGoesAway {
        /// Its reason, a number of RFC 9113 7.
        code: u32,
    },
}

/// Why a stream was reset.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// By the peer, with this number of RFC 9113 7.
    Peer(u32),
    /// By us, because the peer broke this rule.
    Broken(Error),
}

/// A failure of one stream, or of the connection.
#[derive(Copy, Clone, Debug)]
pub(super) enum Failure {
    Connection(Error),
    Stream(u32, Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Connection(error)
    }
}

impl From<crate::h1::Full> for Failure {
    fn from(_: crate::h1::Full) -> Failure {
        Failure::Connection(Error::OutputFull)
    }
}
