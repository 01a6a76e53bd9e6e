//! What the connections of a load do.

use std::time::Duration;

use super::connection::CLIENTS;
use super::websocket;

/// The same for each connection.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Plan {
    /// At once; at least 1.
    pub(in crate::bench) connections: usize,
    /// Addresses that they come from; 1 to [`CLIENTS`].
    pub(in crate::bench) addresses: usize,
    pub(in crate::bench) target: &'static str,
    /// Bytes of each request's body; it is a `POST` then.
    pub(in crate::bench) upload_bytes: Option<u64>,
    /// Requests that a connection sends, one after the other's answer; at least 1.
    pub(in crate::bench) requests: u32,
    /// How often each is sent at once; at least 1.
    pub(in crate::bench) pipelined: u32,
    /// The connection becomes a WebSocket first; its requests are messages with so many bytes, and the answers their
    /// echoes.
    pub(in crate::bench) message_bytes: Option<usize>,
    /// Only the first half of the head is sent, and no answer is expected.
    pub(in crate::bench) half: bool,
    pub(in crate::bench) reads: Reads,
    pub(in crate::bench) then: Then,
    /// Connections that are being opened, or doing their requests before they are held, at one time; at least 1.
    pub(in crate::bench) opening_max: usize,
}

/// How a connection takes its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Reads {
    /// As they come.
    All,
    /// A piece every so often, with a small receive buffer, for some time; then as they come.
    Slowly { piece_bytes: usize, every: Duration, during: Duration },
    /// Not at all.
    Never,
}

/// What a connection does when its requests are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Then {
    /// It is closed.
    Close,
    /// It is closed and another one opened.
    Reopen,
    /// It stays until all have stayed for so long.
    Hold(Duration),
}

impl Plan {
    /// One request on one connection.
    pub(in crate::bench) const GET: Plan = Plan {
        connections: 1,
        addresses: CLIENTS,
        target: "/pipeline",
        upload_bytes: None,
        requests: 1,
        pipelined: 1,
        message_bytes: None,
        half: false,
        reads: Reads::All,
        then: Then::Close,
        opening_max: 200,
    };

    /// With a part of the connections: 1 / `part`, and shorter times.
    pub(super) fn scaled(&self, part: u32) -> Plan {
        let mut plan = self.clone();
        let connections = plan.connections / part as usize;
        plan.connections = connections.max(1);
        if part > 1 {
            if let Then::Hold(time) = &mut plan.then {
                *time = (*time).min(SHORT);
            }
            if let Reads::Slowly { during, .. } = &mut plan.reads {
                *during = (*during).min(SHORT);
            }
        }
        plan
    }

    /// What a connection begins with before its requests, if anything.
    pub(super) fn opening(&self) -> Vec<u8> {
        match self.message_bytes {
            None => Vec::new(),
            Some(_) => websocket::handshake(self.target),
        }
    }

    /// The bytes of a head, and how many of them are sent.
    pub(super) fn head(&self) -> Vec<u8> {
        if let Some(bytes) = self.message_bytes {
            return websocket::message(bytes).repeat(self.pipelined as usize);
        }
        let head = match self.upload_bytes {
            None => format!("GET {} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", self.target),
            Some(bytes) => {
                format!("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n", self.target)
            }
        };
        let head = head.repeat(self.pipelined as usize).into_bytes();
        if self.half { head[..head.len() / 2].to_vec() } else { head }
    }
}

const SHORT: Duration = Duration::from_millis(500);
