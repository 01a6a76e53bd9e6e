//! What is known of a session.
#![forbid(unsafe_code)]

use plimsoll_runtime::net::transport::Transport;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};

use crate::version::Version;

/// What was agreed on in a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsInfo {
    /// The version; `None` before the handshake is over.
    pub version: Option<Version>,
    /// The cipher suite as IANA names it, such as `TLS13_AES_128_GCM_SHA256`.
    pub suite: Option<&'static str>,
    /// The protocol that ALPN chose (RFC 7301), such as `h2`.
    pub alpn: Option<Vec<u8>>,
    /// The peer's certificates in DER, its own first; none of a client that was not asked, or did not send any. They
    /// were checked.
    pub peer_certificates: Vec<Vec<u8>>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

impl TlsInfo {
    pub(crate) fn of(common: &CommonState) -> Self {
        let version = match common.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => Some(Version::Tls12),
            Some(ProtocolVersion::TLSv1_3) => Some(Version::Tls13),
            _ => None,
        };
        let certificates = common.peer_certificates().unwrap_or_default();
        Self {
            version,
            suite: common.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str()),
            alpn: common.alpn_protocol().map(<[u8]>::to_vec),
            peer_certificates: certificates.iter().map(|certificate| certificate.to_vec()).collect(),
            is_resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// What is known of what carries a connection, if it is TLS.
    #[doc(hidden)]
    pub fn of_transport(transport: &dyn Transport) -> Option<Self> {
        let mut told: Option<Self> = None;
        transport.tell(&mut told);
        told
    }
}
