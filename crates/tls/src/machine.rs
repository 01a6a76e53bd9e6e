//! The one file that calls rustls for a connection: records in, plaintext and records out. Its unbuffered interface is
//! not that of later versions, so nothing of it leaves here.
#![forbid(unsafe_code)]

use plimsoll_pool::{Kind, Lease, OverBudget, Pool};
use plimsoll_runtime::net::transport::{Attached, OpenError, Pack, PackedBytes};
use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error, HandshakeKind};

use crate::info::TlsInfo;

/// What rustls holds for a session at most once its handshake is over, but for the peer's certificates.
pub const PARKED_BYTES_MAX: u64 = 4 * 1024;
/// What a seal adds to its plaintext, in bytes: as much as any suite does. What a change of keys adds is found out.
const SEAL_BYTES: usize = 64;

/// One end of a session.
pub(crate) trait Machine {
    /// Takes records in, whole ones. How many bytes of them are done with: of a message in several records none are,
    /// before the last one came, and the next call begins with them again.
    fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>);

    /// After a failure: puts what is to be said of it, an alert, behind the other records.
    fn write_alert(&mut self, pool: &Pool, out: &mut Out);

    /// Seals at most 16 KiB. `kept` is what [`take_in`](Self::take_in) was given and is not done with.
    fn seal(&mut self, pool: &Pool, kept: &mut [u8], plaintext: &[u8]) -> Result<Lease, OverBudget>;

    /// Writes a `close_notify`: how many bytes that is.
    fn end(&mut self, kept: &mut [u8], room: &mut [u8]) -> usize;

    /// Whether plaintext can neither come nor be sent yet.
    fn is_handshaking(&self) -> bool;

    /// The protocol that ALPN chose.
    fn protocol(&self) -> Option<&[u8]>;

    /// What is known of it.
    fn info(&self) -> TlsInfo;

    /// Whether an earlier session goes on.
    fn is_resumed(&self) -> bool;

    /// As [`Transport::serves`](plimsoll_runtime::net::transport::Transport::serves).
    fn serves(&self, _host: &str) -> bool {
        true
    }

    /// What it holds beside itself at most when its handshake is over.
    fn held_bytes(&self) -> u64;

    /// As [`Transport::packing`](plimsoll_runtime::net::transport::Transport::packing).
    fn packing(&self) -> Option<&'static &'static dyn Pack> {
        None
    }

    /// As [`Transport::pack`](plimsoll_runtime::net::transport::Transport::pack).
    fn pack(&mut self, _bytes: &mut PackedBytes) -> Attached {
        None
    }
}

fn held_bytes(common: &CommonState) -> u64 {
    let certificates = common.peer_certificates().unwrap_or_default();
    let chain: usize = certificates.iter().map(|one| one.len() + size_of_val(one)).sum();
    PARKED_BYTES_MAX + chain as u64
}

/// What came out.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) plaintext: Option<Lease>,
    /// To be sent.
    pub(crate) records: Option<Lease>,
    /// The peer has said that it sends no more.
    pub(crate) has_ended: bool,
}

/// Why a session cannot go on.
#[derive(Debug)]
pub(crate) enum Failure {
    OverBudget(OverBudget),
    Peer(Error),
}

impl From<OverBudget> for Failure {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::OverBudget(over) => Self::OverBudget(over),
            Failure::Peer(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Failure::Peer(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Self::Untrusted,
            Failure::Peer(Error::AlertReceived(_)) => Self::GivenUp,
            Failure::Peer(_) => Self::Malformed,
        }
    }
}

/// Whether there is more to be had without more bytes.
enum Next {
    More,
    Nothing,
}

/// The two ends have the same methods, and no trait of rustls for them.
macro_rules! machine {
    ($connection:ty) => {
        impl Machine for $connection {
            fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>) {
                take_in(records, |records| apply(pool, self.process_tls_records(records), out))
            }

            fn write_alert(&mut self, pool: &Pool, out: &mut Out) {
                // Asked no further: rustls would look at the records again, and fail once more.
                while self.wants_write()
                    && matches!(apply(pool, self.process_tls_records(&mut []), out), (_, Ok(Next::More)))
                {}
            }

            fn seal(&mut self, pool: &Pool, kept: &mut [u8], plaintext: &[u8]) -> Result<Lease, OverBudget> {
                seal(pool, plaintext, |room| {
                    write(self.process_tls_records(kept), |state| encrypt(state, plaintext, room))
                })
            }

            fn end(&mut self, kept: &mut [u8], room: &mut [u8]) -> usize {
                write(self.process_tls_records(kept), |state| end(state, room))
            }

            fn is_handshaking(&self) -> bool {
                CommonState::is_handshaking(self)
            }

            fn protocol(&self) -> Option<&[u8]> {
                self.alpn_protocol()
            }

            fn info(&self) -> TlsInfo {
                TlsInfo::of(self)
            }

            fn is_resumed(&self) -> bool {
                self.handshake_kind() == Some(HandshakeKind::Resumed)
            }

            fn held_bytes(&self) -> u64 {
                held_bytes(self)
            }
        }
    };
}

machine!(UnbufferedServerConnection);
machine!(UnbufferedClientConnection);

fn take_in(
    records: &mut [u8],
    mut step: impl FnMut(&mut [u8]) -> (usize, Result<Next, Failure>),
) -> (usize, Result<(), Failure>) {
    let mut used = 0;
    loop {
        let (discard, next) = step(&mut records[used..]);
        used += discard;
        match next {
            Ok(Next::More) => {}
            Ok(Next::Nothing) => return (used, Ok(())),
            Err(failure) => return (used, Err(failure)),
        }
    }
}

fn apply<D>(pool: &Pool, status: UnbufferedStatus<'_, '_, D>, out: &mut Out) -> (usize, Result<Next, Failure>) {
    let UnbufferedStatus { discard, state } = status;
    let mut used = discard;
    let next = match state {
        Ok(state) => take_state(pool, state, out, &mut used),
        Err(error) => Err(Failure::Peer(error)),
    };
    (used, next)
}

fn take_state<D>(
    pool: &Pool,
    state: ConnectionState<'_, '_, D>,
    out: &mut Out,
    used: &mut usize,
) -> Result<Next, Failure> {
    match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(Failure::Peer)?;
                *used += record.discard;
                append(pool, &mut out.plaintext, record.payload)?;
            }
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let mut room = [];
            if let Err(EncodeError::InsufficientSize(wants)) = data.encode(&mut room) {
                let room = spare(pool, &mut out.records, wants.required_size)?;
                let _written = data.encode(room).map_err(|_| Failure::Peer(Error::EncryptError))?;
            }
        }
        ConnectionState::TransmitTlsData(data) => data.done(),
        ConnectionState::PeerClosed => out.has_ended = true,
        ConnectionState::Closed => {
            out.has_ended = true;
            return Ok(Next::Nothing);
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => return Ok(Next::Nothing),
        // Never offered.
        _ => return Err(Failure::Peer(Error::General(String::new()))),
    }
    Ok(Next::More)
}

pub(crate) fn append(pool: &Pool, lease: &mut Option<Lease>, bytes: &[u8]) -> Result<(), OverBudget> {
    match lease {
        None => *lease = Some(pool.try_copy(bytes, Kind::Buffers)?),
        Some(lease) => {
            if lease.spare_capacity() < bytes.len() {
                pool.try_grow(lease, bytes.len())?;
            }
            lease.extend(bytes);
        }
    }
    Ok(())
}

/// A lease with room for so many bytes more.
pub(crate) fn reserve<'a>(pool: &Pool, lease: &'a mut Option<Lease>, len: usize) -> Result<&'a mut Lease, OverBudget> {
    if lease.is_none() {
        *lease = Some(pool.try_acquire(len, Kind::Buffers)?);
    }
    let lease = lease.as_mut().expect("filled above");
    if lease.spare_capacity() < len {
        pool.try_grow(lease, len)?;
    }
    Ok(lease)
}

/// So many bytes more, to be written over.
fn spare<'a>(pool: &Pool, lease: &'a mut Option<Lease>, len: usize) -> Result<&'a mut [u8], OverBudget> {
    let lease = reserve(pool, lease, len)?;
    let start = lease.len();
    fill(lease, len);
    Ok(&mut lease.as_mut_slice()[start..])
}

fn fill(lease: &mut Lease, mut len: usize) {
    const ZEROS: [u8; 1024] = [0; 1024];
    while len > 0 {
        len -= lease.extend(&ZEROS[..len.min(ZEROS.len())]);
    }
}

/// Writes in a lease, for which there must be room before anything is sealed.
fn seal(
    pool: &Pool,
    plaintext: &[u8],
    mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
) -> Result<Lease, OverBudget> {
    let mut wants = plaintext.len() + SEAL_BYTES;
    loop {
        let mut lease = pool.try_acquire(wants, Kind::Buffers)?;
        fill(&mut lease, wants);
        match write(lease.as_mut_slice()) {
            Ok(len) => {
                lease.truncate(len);
                return Ok(lease);
            }
            Err(0) => return Err(OverBudget::new(0)),
            Err(required) => wants = required,
        }
    }
}

/// Writes in the state in which that is possible.
fn write<D, R>(status: UnbufferedStatus<'_, '_, D>, write: impl FnOnce(Option<ConnectionState<'_, '_, D>>) -> R) -> R {
    write(status.state.ok())
}

/// How many bytes were written, or how many are needed; 0 when nothing can be sealed any more.
fn encrypt<D>(state: Option<ConnectionState<'_, '_, D>>, plaintext: &[u8], room: &mut [u8]) -> Result<usize, usize> {
    let Some(ConnectionState::WriteTraffic(mut traffic)) = state else { return Err(0) };
    traffic.encrypt(plaintext, room).map_err(|error| match error {
        EncryptError::InsufficientSize(wants) => wants.required_size,
        EncryptError::EncryptExhausted => 0,
    })
}

fn end<D>(state: Option<ConnectionState<'_, '_, D>>, room: &mut [u8]) -> usize {
    let Some(ConnectionState::WriteTraffic(mut traffic)) = state else { return 0 };
    traffic.queue_close_notify(room).unwrap_or(0)
}
