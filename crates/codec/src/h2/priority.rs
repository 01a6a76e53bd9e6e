//! Priorities (RFC 9218), and whose turn it is to send.

use super::stream::{Output, Stream, StreamKey};
use crate::h1::syntax::trim;

/// How urgent a response is, and whether a part of it is of use.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    /// 0 (first) to 7 (last).
    pub urgency: u8,
    /// Whether its parts are of use before it is complete, so that it should share the connection.
    pub incremental: bool,
}

impl Priority {
    /// What holds if nothing is said (RFC 9218 4).
    pub const DEFAULT: Priority = Priority { urgency: 3, incremental: false };

    /// Reads the value of a `priority` field or PRIORITY_UPDATE frame. What it does not say or says wrongly is as by
    /// default, and members that are not known are passed over: a priority is a hint, and no reason to refuse a
    /// request.
    ///
    /// ```
    /// use plimsoll_codec::h2::Priority;
    ///
    /// assert_eq!(Priority::parse(b"u=5, i"), Priority { urgency: 5, incremental: true });
    /// assert_eq!(Priority::parse(b"i=?0,u=9"), Priority::DEFAULT);
    /// ```
    #[must_use]
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::DEFAULT;
        for member in value.split(|&byte| byte == b',').map(trim) {
            // Parameters of a member mean nothing here.
            match member.split(|&byte| byte == b';').next().map(trim) {
                Some([b'u', b'=', digit @ b'0'..=b'7']) => priority.urgency = digit - b'0',
                Some(b"i" | b"i=?1") => priority.incremental = true,
                Some(b"i=?0") => priority.incremental = false,
                _ => {}
            }
        }
        debug_assert!(priority.urgency <= 7);
        priority
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

/// Whose turn it is among the streams that have output and window: the most urgent; among those, each incremental one
/// and the first of the others take turns.
pub(super) fn next(streams: &[Stream]) -> Option<StreamKey> {
    let ready = |stream: &Stream| stream.output == Output::Waiting && stream.state.can_send() && stream.send_window > 0;
    let urgency = streams.iter().filter(|stream| ready(stream)).map(|stream| stream.priority.urgency).min()?;
    let candidates = || {
        let urgent = streams.iter().enumerate();
        urgent.filter(|(_, stream)| stream.priority.urgency == urgency && ready(stream))
    };
    let first = candidates().filter(|(_, stream)| !stream.priority.incremental).min_by_key(|(_, stream)| stream.id);
    let (slot, stream) = candidates()
        .filter(|(_, stream)| stream.priority.incremental)
        .chain(first)
        .min_by_key(|(_, stream)| (stream.turn, stream.id))?;
    Some(StreamKey { slot: slot as u16, id: stream.id })
}
