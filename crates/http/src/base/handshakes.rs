//! Handshakes of TLS: how they end, and how many have.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::counters::add;

/// Why a handshake has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// It was not over within [`head_timeout`](crate::Config::head_timeout) from the accept, or from the PROXY header
    /// before it, which itself may have been late; or others waited, and it had waited for its client for 2 s.
    Timeout,
    /// The client broke the rules of TLS, or what it sent is none.
    Malformed,
    /// The client offers no version, cipher suite or protocol that is spoken here.
    Incompatible,
    /// The client has shown no certificate, or none that is trusted, and must.
    ClientCertificate,
    /// The client gave up and said so by an alert: most often it does not trust the certificate.
    Alert,
    /// There was no memory to go on under the line.
    Memory,
    /// The client speaks HTTP where TLS is spoken: it was told so.
    PlainHttp,
    /// The client went away.
    Gone,
    /// It began with no PROXY header where one is [required](crate::ProxyProtocol::Required), or with a malformed one.
    ProxyHeader,
}

impl HandshakeFailure {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Timeout,
        Self::Malformed,
        Self::Incompatible,
        Self::ClientCertificate,
        Self::Alert,
        Self::Memory,
        Self::PlainHttp,
        Self::Gone,
        Self::ProxyHeader,
    ];

    /// The reason's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Incompatible => "incompatible",
            Self::ClientCertificate => "client_certificate",
            Self::Alert => "alert",
            Self::Memory => "memory",
            Self::PlainHttp => "plain_http",
            Self::Gone => "gone",
            Self::ProxyHeader => "proxy_header",
        }
    }
}

/// Handshakes of a server's connections. One that failed before it was begun is among the failed alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeTotals {
    /// Begun: something had come, and there was room.
    pub begun_total: u64,
    /// Completed.
    pub completed_total: u64,
    /// Completed by going on with an earlier session.
    pub resumed_total: u64,
    /// Failed, in the order of [`HandshakeFailure::ALL`].
    pub failed_total: [u64; HandshakeFailure::ALL.len()],
    /// In progress now.
    pub in_progress: u64,
    /// Steps of handshakes that wait for their turn now.
    pub waiting: u64,
    /// Connections that began with TLS where HTTP is spoken: they were answered 400.
    pub on_plain_port_total: u64,
}

/// Those of one worker; only that worker writes them.
#[derive(Debug, Default)]
pub(crate) struct HandshakeCounters {
    begun: AtomicU64,
    completed: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; HandshakeFailure::ALL.len()],
    in_progress: AtomicU64,
    waiting: AtomicU64,
    on_plain_port: AtomicU64,
}

impl HandshakeCounters {
    pub(crate) fn begun(&self) {
        add(&self.begun, 1);
        add(&self.in_progress, 1);
    }

    pub(crate) fn completed(&self, is_resumed: bool) {
        add(&self.completed, 1);
        add(&self.resumed, i64::from(is_resumed));
        add(&self.in_progress, -1);
    }

    pub(crate) fn failed(&self, why: HandshakeFailure, was_begun: bool) {
        add(&self.failed[why as usize], 1);
        add(&self.in_progress, -i64::from(was_begun));
    }

    pub(crate) fn waiting(&self, count: usize) {
        self.waiting.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn on_plain_port(&self) {
        add(&self.on_plain_port, 1);
    }

    pub(super) fn add_to(&self, totals: &mut HandshakeTotals) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        totals.begun_total += of(&self.begun);
        totals.completed_total += of(&self.completed);
        totals.resumed_total += of(&self.resumed);
        totals.in_progress += of(&self.in_progress);
        totals.waiting += of(&self.waiting);
        totals.on_plain_port_total += of(&self.on_plain_port);
        for (total, failed) in totals.failed_total.iter_mut().zip(&self.failed) {
            *total += of(failed);
        }
    }
}
