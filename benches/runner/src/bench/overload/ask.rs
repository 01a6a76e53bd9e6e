//! What clients ask for, and how.

use std::time::Duration;

use crate::bench::swarm::websocket;

/// Requests of one kind.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) work: Work,
    pub(super) wire: Wire,
    /// Clients' addresses, in turns; at least 1.
    pub(super) addresses: usize,
    pub(super) manner: Manner,
    /// Whose addresses they are: no two groups have one in common. 0 to [`GROUPS_MAX`].
    pub(super) group: u8,
}

/// What a handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// A `GET` of a target, answered after so many milliseconds of the handler's own.
    Get { target: &'static str, ms: u64 },
    /// A `POST` of [`UPLOAD_BYTES`], a piece every [`UPLOAD_EVERY`].
    Upload,
    /// A WebSocket that is opened, asks for one echo, stays for [`STAY`], and closes.
    WebSocket,
}

/// On what a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// HTTP/1.1 on a connection of its address that is free, or a new one.
    Kept,
    /// HTTP/1.1 on a new connection, which asks to be closed.
    New,
    /// A stream on one of its address's connections of HTTP/2.
    Http2,
}

/// What a client does that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It leaves.
    Leaves,
    /// It comes back when it was told to, at most [`RETURNS_MAX`] times.
    Returns,
    /// It comes back after [`INSISTS_EVERY`], whatever it was told, as often.
    Insists,
}

impl Ask {
    /// A `GET` by clients who leave when they are refused.
    pub(super) const fn get(target: &'static str, ms: u64, wire: Wire) -> Ask {
        Ask { work: Work::Get { target, ms }, wire, addresses: 1, manner: Manner::Leaves, group: 0 }
    }

    /// How long it takes without anybody else.
    pub(super) const fn takes(&self) -> Duration {
        match self.work {
            Work::Get { ms, .. } => Duration::from_millis(ms),
            Work::Upload => Duration::from_millis(UPLOAD_EVERY.as_millis() as u64 * (UPLOAD_PIECES as u64 - 1)),
            Work::WebSocket => STAY,
        }
    }

    /// What the server counts it as.
    pub(super) fn kind(&self) -> &'static str {
        match self.work {
            Work::Get { target, .. } => target.split('/').nth(1).unwrap_or_default(),
            Work::Upload => "upload",
            Work::WebSocket => "ws",
        }
    }

    /// A request in HTTP/1.1, without a body.
    pub(super) fn head(&self) -> Vec<u8> {
        let close = if self.wire == Wire::New { "Connection: close\r\n" } else { "" };
        match self.work {
            Work::Get { target, .. } => format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n").into_bytes(),
            Work::Upload => {
                format!("POST /upload HTTP/1.1\r\nHost: localhost\r\n{close}Content-Length: {UPLOAD_BYTES}\r\n\r\n")
                    .into_bytes()
            }
            Work::WebSocket => websocket::handshake("/ws"),
        }
    }

    /// After what time a client that was refused comes back, if it does: told so by the server, and for the so manieth
    /// time.
    pub(super) fn comes_back(&self, told: Option<u64>, returns: u8) -> Option<Duration> {
        match self.manner {
            _ if returns >= RETURNS_MAX => None,
            Manner::Leaves => None,
            Manner::Returns => Some(Duration::from_secs(told.unwrap_or(1))),
            Manner::Insists => Some(INSISTS_EVERY),
        }
    }
}

pub(super) const UPLOAD_BYTES: usize = UPLOAD_PIECES * UPLOAD_PIECE_BYTES;
pub(super) const UPLOAD_PIECES: usize = 8;
pub(super) const UPLOAD_PIECE_BYTES: usize = 8 * 1024;
pub(super) const UPLOAD_EVERY: Duration = Duration::from_millis(100);
const STAY: Duration = Duration::from_secs(2);
const RETURNS_MAX: u8 = 4;
const INSISTS_EVERY: Duration = Duration::from_millis(250);
/// Groups of addresses: 127.1.0.0/16 is the first one's.
pub(super) const GROUPS_MAX: u8 = 8;

#[cfg(test)]
mod tests {
    //! Requests are named as the server counts them, and those who are refused come back as their manner is.

    use std::time::Duration;

    use super::{Ask, Manner, UPLOAD_BYTES, Wire, Work};

    #[test]
    fn kinds_are_those_of_the_server() {
        assert_eq!(Ask::get("/sleep/2000", 2_000, Wire::Kept).kind(), "sleep");
        assert_eq!(Ask::get("/tiny", 0, Wire::Kept).kind(), "tiny");
        let upload = Ask { work: Work::Upload, ..Ask::get("", 0, Wire::New) };
        assert_eq!((upload.kind(), upload.takes()), ("upload", Duration::from_millis(700)));
        let head = String::from_utf8(upload.head()).unwrap();
        assert!(head.contains(&format!("Content-Length: {UPLOAD_BYTES}\r\n")) && head.contains("close"), "{head}");
    }

    #[test]
    fn manners_differ() {
        let after = |manner, told, returns| {
            Ask { manner, ..Ask::get("/tiny", 0, Wire::Kept) }.comes_back(told, returns).map(|after| after.as_millis())
        };
        assert_eq!(after(Manner::Leaves, Some(3), 0), None);
        assert_eq!((after(Manner::Returns, Some(3), 0), after(Manner::Returns, None, 3)), (Some(3_000), Some(1_000)));
        assert_eq!(after(Manner::Insists, Some(3), 0), Some(250));
        assert_eq!((after(Manner::Returns, Some(3), 4), after(Manner::Insists, None, 4)), (None, None));
    }
}
