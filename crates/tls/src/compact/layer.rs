//! The record layer of TLS 1.3 after the handshake (RFC 8446 5, 6 and 4.6.3), of a server.
//!
//! What a peer may send then is plaintext, a `KeyUpdate`, and alerts. Everything else ends the session, with an alert
//! that is the last that is sealed. It is stricter than rustls in two things: the header of a record must be that of
//! application data, as it is authenticated; and what cannot become a `KeyUpdate` is refused at its first byte.
#![forbid(unsafe_code)]

use core::borrow::BorrowMut;

use aws_lc_rs::aead::LessSafeKey;
use plimsoll_pool::{Kind, Lease, OverBudget, Pool};
use plimsoll_runtime::net::transport::{Attached, Pack, PackedBytes};
use rustls::{AlertDescription, Error, InvalidMessage, PeerMisbehaved};

use super::keys::{Suite, TAG_BYTES};
use super::state::{Answers, Counter, Owned, Phase, Protocol, Seen, State, Way};
use crate::info::TlsInfo;
use crate::machine::{Failure, Machine, Out, append, reserve};
use crate::records::HEADER_BYTES;
use crate::version::Version;

/// Content of a record at most.
const CONTENT_BYTES_MAX: usize = 16 * 1024;
/// What is sealed at most: content, its type and padding (RFC 8446 5.4).
const INNER_BYTES_MAX: usize = CONTENT_BYTES_MAX + 1;
/// A record behind its header at most (RFC 8446 5.2).
const SEALED_BYTES_MAX: usize = CONTENT_BYTES_MAX + 256;
/// Header, type and tag.
const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;

/// Changes of keys without plaintext between them, records without content in a row, and alerts that mean nothing: as
/// many as rustls and BoringSSL take.
const KEY_UPDATES_MAX: u8 = 32;
const EMPTIES_MAX: u8 = 32;
const WARNINGS_MAX: u8 = 4;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const CHANGE_CIPHER_SPEC: u8 = 20;

/// A `KeyUpdate` (RFC 8446 4.6.3), but for its last byte: whether one is asked for.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];
const NOT_REQUESTED: u8 = 0;
const REQUESTED: u8 = 1;

/// Of an alert (RFC 8446 6).
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Level {
    Warning = 1,
    Fatal = 2,
}

/// Why a session ends, and what its peer is told: nothing after an alert of its own.
struct Fault {
    alert: Option<AlertDescription>,
    error: Error,
}

impl Fault {
    fn told(alert: AlertDescription, error: impl Into<Error>) -> Self {
        Self { alert: Some(alert), error: error.into() }
    }
}

enum Stop {
    Fault(Fault),
    OverBudget(OverBudget),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<OverBudget> for Stop {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

/// A session's record layer, over its state: in its slot, or [owned](Owned).
pub(crate) struct Layer<B> {
    bytes: B,
    /// A protocol that has no number, and the peer's certificates: `len name`, then each with three bytes of length.
    attached: Attached,
}

impl<B: BorrowMut<PackedBytes>> Layer<B> {
    pub(super) fn new(bytes: B, attached: Attached) -> Self {
        Self { bytes, attached }
    }

    pub(super) fn into_attached(self) -> Attached {
        self.attached
    }

    pub(super) fn bytes(&mut self) -> &mut B {
        &mut self.bytes
    }

    fn seen(&self) -> Seen<'_> {
        Seen(self.bytes.borrow())
    }

    pub(super) fn state(&mut self) -> State<'_> {
        State(self.bytes.borrow_mut())
    }

    /// Whether both may send.
    pub(super) fn is_open(&self) -> bool {
        self.seen().phase() == Phase::Open
    }

    /// Opens records. Of those behind an end of the peer's nothing is done.
    fn open(&mut self, pool: &Pool, records: &mut [u8], used: &mut usize, out: &mut Out) -> Result<(), Stop> {
        let mut key = self.state().expanded(Way::In);
        // Several that ask for new keys are answered together.
        let mut is_answered = false;
        while *used < records.len() && !out.has_ended {
            let (header, sealed) = front(&mut records[*used..])?;
            *used += HEADER_BYTES + sealed.len();
            let opened = self.state().unprotect(&key, header, sealed);
            let Some(len) = opened else {
                return Err(Fault::told(AlertDescription::BadRecordMac, Error::DecryptError).into());
            };
            if len > INNER_BYTES_MAX {
                return Err(Fault::told(AlertDescription::RecordOverflow, Error::PeerSentOversizedRecord).into());
            }
            let (kind, content) = unpadded(&sealed[..len])?;
            self.count_empties(content)?;
            if self.seen().count(Counter::Partial) > 0 && kind != HANDSHAKE {
                return Err(unexpected(PeerMisbehaved::MessageInterleavedWithHandshakeMessage).into());
            }
            match kind {
                APPLICATION_DATA => {
                    self.state().set_count(Counter::KeyUpdates, 0);
                    append(pool, &mut out.plaintext, content)?;
                }
                HANDSHAKE => {
                    let Some(is_asked) = self.key_update(content)? else { continue };
                    self.state().next_key(Way::In);
                    key = self.state().expanded(Way::In);
                    if is_asked && !core::mem::replace(&mut is_answered, true) {
                        self.answer(pool, &mut out.records)?;
                    }
                }
                ALERT => out.has_ended = self.alert(content)?,
                _ => return Err(unexpected(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec).into()),
            }
        }
        Ok(())
    }

    fn count_empties(&mut self, content: &[u8]) -> Result<(), Fault> {
        let count = if content.is_empty() { self.seen().count(Counter::Empties) + 1 } else { 0 };
        self.state().set_count(Counter::Empties, count.min(EMPTIES_MAX));
        if count > EMPTIES_MAX { Err(unexpected(PeerMisbehaved::TooManyEmptyFragments)) } else { Ok(()) }
    }

    /// Takes in (a part of) a `KeyUpdate`: when it is whole, whether one is asked for.
    fn key_update(&mut self, content: &[u8]) -> Result<Option<bool>, Fault> {
        let mut at = usize::from(self.seen().count(Counter::Partial));
        let mut rest = content.iter();
        while let Some(&byte) = rest.next() {
            match KEY_UPDATE.get(at) {
                Some(&known) if known == byte => at += 1,
                Some(_) if at == 0 => return Err(unexpected(PeerMisbehaved::TooManyKeyUpdateRequests)),
                Some(_) => return Err(decode(InvalidMessage::InvalidKeyUpdate)),
                None => {
                    self.state().set_count(Counter::Partial, 0);
                    // What follows has other keys, so it is in another record.
                    if !rest.as_slice().is_empty() {
                        return Err(unexpected(PeerMisbehaved::KeyEpochWithPendingFragment));
                    }
                    let count = self.seen().count(Counter::KeyUpdates) + 1;
                    if count > KEY_UPDATES_MAX {
                        return Err(unexpected(PeerMisbehaved::TooManyKeyUpdateRequests));
                    }
                    self.state().set_count(Counter::KeyUpdates, count);
                    return match byte {
                        NOT_REQUESTED => Ok(Some(false)),
                        REQUESTED => Ok(Some(true)),
                        _ => Err(Fault::told(AlertDescription::IllegalParameter, InvalidMessage::InvalidKeyUpdate)),
                    };
                }
            }
        }
        self.state().set_count(Counter::Partial, at as u8);
        Ok(None)
    }

    /// Takes in an alert: whether it is the end.
    fn alert(&mut self, content: &[u8]) -> Result<bool, Fault> {
        let &[level, description] = content else { return Err(decode(InvalidMessage::MessageTooShort)) };
        let level = [Level::Warning, Level::Fatal].into_iter().find(|known| *known as u8 == level);
        let description = AlertDescription::from(description);
        let error = Error::AlertReceived(description);
        match (level, description) {
            (Some(_), AlertDescription::CloseNotify) => Ok(true),
            (Some(Level::Warning), AlertDescription::UserCanceled) => {
                let count = self.seen().count(Counter::Warnings) + 1;
                if count > WARNINGS_MAX {
                    return Err(unexpected(PeerMisbehaved::TooManyWarningAlertsReceived));
                }
                self.state().set_count(Counter::Warnings, count);
                Ok(false)
            }
            (Some(Level::Warning), _) => Err(Fault::told(AlertDescription::DecodeError, error)),
            (Some(Level::Fatal), _) => Err(Fault { alert: None, error }),
            (None, _) => Err(Fault::told(AlertDescription::IllegalParameter, error)),
        }
    }

    /// Answers who asked for new keys, or will before the next plaintext.
    fn answer(&mut self, pool: &Pool, out: &mut Option<Lease>) -> Result<(), OverBudget> {
        let answers = match self.seen().answers() {
            Answers::None => {
                self.update_key(pool, out)?;
                Answers::Given
            }
            Answers::Given | Answers::Owed => Answers::Owed,
        };
        self.state().set_answers(answers);
        Ok(())
    }

    /// Says that we seal with other keys from now on, and does.
    fn update_key(&mut self, pool: &Pool, out: &mut Option<Lease>) -> Result<(), OverBudget> {
        let message = [KEY_UPDATE[0], KEY_UPDATE[1], KEY_UPDATE[2], KEY_UPDATE[3], NOT_REQUESTED];
        self.put(reserve(pool, out, message.len() + OVERHEAD_BYTES)?, HANDSHAKE, &message)?;
        self.state().next_key(Way::Out);
        Ok(())
    }

    /// Seals one record behind what a lease has. There is room for it.
    fn put(&mut self, lease: &mut Lease, kind: u8, content: &[u8]) -> Result<(), OverBudget> {
        assert!(lease.spare_capacity() >= content.len() + OVERHEAD_BYTES, "room is there before a record is sealed");
        let header = header(content.len());
        let start = lease.len() + HEADER_BYTES;
        for part in [&header[..], content, &[kind]] {
            lease.extend(part);
        }
        let mut state = self.state();
        let key: LessSafeKey = state.expanded(Way::Out);
        let tag = state.protect(&key, header, &mut lease.as_mut_slice()[start..]);
        match tag {
            Some(tag) => {
                lease.extend(&tag);
                Ok(())
            }
            None => {
                // What is there is plaintext.
                lease.truncate(start - HEADER_BYTES);
                state.set_phase(Phase::Failed);
                Err(OverBudget::new(0))
            }
        }
    }

    /// Ends the session with an alert, as far as there is room for one.
    fn fail(&mut self, pool: &Pool, alert: Option<AlertDescription>, out: &mut Out) {
        if let (Some(alert), Phase::Open) = (alert, self.seen().phase())
            && let Ok(lease) = reserve(pool, &mut out.records, 2 + OVERHEAD_BYTES)
        {
            let _none_without_numbers = self.put(lease, ALERT, &[Level::Fatal as u8, alert.into()]);
        }
        self.state().set_phase(Phase::Failed);
    }

    /// Keys for one record more of plaintext: a change of keys is what a key seals last.
    fn is_key_used_up(&mut self) -> bool {
        let records_max = self.seen().suite().records_max();
        self.state().sequence(Way::Out) >= records_max - 1
    }
}

/// The first of some records.
fn front(records: &mut [u8]) -> Result<([u8; HEADER_BYTES], &mut [u8]), Fault> {
    let Some((&mut header, rest)) = records.split_first_chunk_mut::<HEADER_BYTES>() else {
        return Err(decode(InvalidMessage::MessageTooShort));
    };
    let [kind, major, minor, high, low] = header;
    let len = usize::from(u16::from_be_bytes([high, low]));
    match kind {
        APPLICATION_DATA => {}
        CHANGE_CIPHER_SPEC => return Err(unexpected(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec)),
        // Not sealed: nobody knows who sent it.
        ALERT | HANDSHAKE => return Err(Fault::told(AlertDescription::BadRecordMac, Error::DecryptError)),
        _ => return Err(decode(InvalidMessage::InvalidContentType)),
    }
    if (major, minor) != (3, 3) {
        return Err(decode(InvalidMessage::UnknownProtocolVersion));
    }
    if len > SEALED_BYTES_MAX {
        return Err(Fault::told(AlertDescription::RecordOverflow, Error::PeerSentOversizedRecord));
    }
    match rest.get_mut(..len) {
        Some(sealed) if len > TAG_BYTES => Ok((header, sealed)),
        Some(_) => Err(Fault::told(AlertDescription::BadRecordMac, Error::DecryptError)),
        None => Err(decode(InvalidMessage::MessageTooShort)),
    }
}

/// Type and content: before the zeros at the end is the type (RFC 8446 5.4).
fn unpadded(inner: &[u8]) -> Result<(u8, &[u8]), Fault> {
    let end = inner.iter().rposition(|byte| *byte != 0);
    let end = end.ok_or_else(|| unexpected(PeerMisbehaved::IllegalTlsInnerPlaintext))?;
    Ok((inner[end], &inner[..end]))
}

/// That of a record with so much content.
fn header(content: usize) -> [u8; HEADER_BYTES] {
    let [high, low] = ((content + 1 + TAG_BYTES) as u16).to_be_bytes();
    [APPLICATION_DATA, 3, 3, high, low]
}

fn unexpected(error: PeerMisbehaved) -> Fault {
    Fault::told(AlertDescription::UnexpectedMessage, error)
}

fn decode(error: InvalidMessage) -> Fault {
    Fault::told(AlertDescription::DecodeError, error)
}

impl<B: BorrowMut<PackedBytes>> Machine for Layer<B> {
    fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>) {
        let mut used = 0;
        if self.seen().phase() == Phase::Failed {
            return (0, Err(Failure::Peer(Error::HandshakeNotComplete)));
        }
        let opened = self.open(pool, records, &mut used, out);
        let failure = match opened {
            Ok(()) => return (used, Ok(())),
            Err(Stop::Fault(Fault { alert, error })) => {
                self.fail(pool, alert, out);
                Failure::Peer(error)
            }
            Err(Stop::OverBudget(over)) => {
                self.fail(pool, None, out);
                Failure::OverBudget(over)
            }
        };
        (used, Err(failure))
    }

    fn write_alert(&mut self, _: &Pool, _: &mut Out) {
        // It is there with the failure.
    }

    fn seal(&mut self, pool: &Pool, _kept: &mut [u8], plaintext: &[u8]) -> Result<Lease, OverBudget> {
        debug_assert!(plaintext.len() <= CONTENT_BYTES_MAX);
        let updates = self.is_key_used_up() || self.seen().answers() == Answers::Owed;
        let update = if updates { KEY_UPDATE.len() + 1 + OVERHEAD_BYTES } else { 0 };
        let mut lease = Some(pool.try_acquire(update + plaintext.len() + OVERHEAD_BYTES, Kind::Buffers)?);
        if !self.is_open() {
            return Err(OverBudget::new(0));
        }
        if updates {
            self.update_key(pool, &mut lease)?;
        }
        let mut lease = lease.expect("acquired above");
        if !plaintext.is_empty() {
            self.put(&mut lease, APPLICATION_DATA, plaintext)?;
            self.state().set_answers(Answers::None);
        }
        Ok(lease)
    }

    fn end(&mut self, _kept: &mut [u8], room: &mut [u8]) -> usize {
        const CONTENT: [u8; 3] = [Level::Warning as u8, 0, ALERT];
        const LEN: usize = HEADER_BYTES + CONTENT.len() + TAG_BYTES;
        let Some(room) = room.first_chunk_mut::<LEN>().filter(|_| self.is_open()) else { return 0 };
        let mut state = self.state();
        state.set_phase(Phase::Closed);
        let (header, mut content, key) = (header(CONTENT.len() - 1), CONTENT, state.expanded(Way::Out));
        let Some(tag) = state.protect(&key, header, &mut content) else { return 0 };
        room[..HEADER_BYTES].copy_from_slice(&header);
        room[HEADER_BYTES..LEN - TAG_BYTES].copy_from_slice(&content);
        room[LEN - TAG_BYTES..].copy_from_slice(&tag);
        LEN
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn protocol(&self) -> Option<&[u8]> {
        match self.seen().protocol() {
            Protocol::None => None,
            Protocol::Known(name) => Some(name),
            Protocol::Attached => {
                let attached = self.attached.as_ref()?;
                let (&len, rest) = attached.split_first()?;
                rest.get(..usize::from(len))
            }
        }
    }

    fn info(&self) -> TlsInfo {
        let mut peer_certificates = Vec::new();
        let mut rest = self.attached.as_ref().map_or(&[][..], |attached| &attached[1 + usize::from(attached[0])..]);
        while let Some((&[a, b, c], after)) = rest.split_first_chunk() {
            let (certificate, after) = after.split_at(u32::from_be_bytes([0, a, b, c]) as usize);
            peer_certificates.push(certificate.to_vec());
            rest = after;
        }
        TlsInfo {
            version: Some(Version::Tls13),
            suite: Suite::name(self.seen().suite()),
            alpn: self.protocol().map(<[u8]>::to_vec),
            peer_certificates,
            is_resumed: self.seen().is_resumed(),
        }
    }

    fn is_resumed(&self) -> bool {
        self.seen().is_resumed()
    }

    /// All of it is charged where it lies.
    fn held_bytes(&self) -> u64 {
        0
    }

    fn packing(&self) -> Option<&'static &'static dyn Pack> {
        (self.is_open()).then_some(&super::PACKING)
    }

    fn pack(&mut self, bytes: &mut PackedBytes) -> Attached {
        bytes.copy_from_slice(self.bytes.borrow());
        zeroize::Zeroize::zeroize(BorrowMut::<PackedBytes>::borrow_mut(&mut self.bytes));
        self.state().set_phase(Phase::Failed);
        self.attached.take()
    }
}

/// A protocol without a number and certificates, as they are kept.
pub(super) fn attach<'a>(
    pool: &Pool,
    protocol: &[u8],
    certificates: impl Iterator<Item = &'a [u8]> + Clone,
) -> Result<Attached, OverBudget> {
    let len = 1 + protocol.len() + certificates.clone().map(|one| 3 + one.len()).sum::<usize>();
    if len == 1 {
        return Ok(None);
    }
    let mut lease = pool.try_acquire(len, Kind::Codec)?;
    lease.extend(&[protocol.len() as u8]);
    lease.extend(protocol);
    for certificate in certificates {
        lease.extend(&(certificate.len() as u32).to_be_bytes()[1..]);
        lease.extend(certificate);
    }
    debug_assert_eq!(lease.len(), len);
    pool.try_boxed(lease, Kind::Codec).map(Some).map_err(|(over, _lease)| over)
}

impl Layer<Owned> {
    /// The layer that follows a handshake.
    pub(super) fn begin(suite: Suite, protocol: Protocol, is_resumed: bool, attached: Attached) -> Self {
        let mut layer = Self::new(Owned::empty(), attached);
        layer.state().begin(suite, protocol, is_resumed);
        layer
    }
}
