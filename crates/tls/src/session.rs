//! A session as the transport of a connection.
//!
//! ```text
//!  received --> is a record kept that is not whole? --no--> whole records: decrypted where they are
//!                  | yes                                      | the rest, and a message that is not whole
//!                  v                                          v
//!               what it lacks, and no more: when it is    a lease of the record's size
//!               whole, it is decrypted there
//! ```
//!
//! So a record that comes in many pieces is looked at when it is whole, and each byte of it is copied a few times at
//! most: what it is kept in has twice the size of what has come.
//!
//! A fatal error is kept: after it nothing is opened and nothing sealed, and what was to be said of it, an alert, is
//! the last that is sent.
#![forbid(unsafe_code)]

#[cfg(feature = "aws-lc")]
mod again;

use core::any::Any;
use core::ops::DerefMut;

use plimsoll_pool::{Charge, Kind, Lease, OverBudget, Pool};
use plimsoll_runtime::net::transport::{
    Attached, END_BYTES_MAX, OpenError, Pack, PackedBytes, Plaintext, Stage, Transport,
};

use crate::info::TlsInfo;
use crate::machine::{Failure, Machine, Out};
use crate::records::{self, Front, HEADER_BYTES};

/// What rustls holds for a session at most, on the C heap, from its first byte to the end of its handshake: up to
/// 7 KiB, and the peer's certificates. Tests count it for each provider and version.
pub const HANDSHAKE_BYTES_MAX: u64 = 24 * 1024;
/// What a session is itself, on the heap.
#[doc(hidden)]
pub const SESSION_BYTES: usize = size_of::<Session>();
/// What a peer sends of its handshake before we say something, with its records: a `ClientHello` of 16 KiB, or a
/// client's certificates of 16 KiB with what follows them. Checked before rustls sees it.
const FLIGHT_BYTES_MAX: usize = 16 * 1024 + 1024;
/// Kept of a record that has begun, at least; then twice of what has come, so that who announces much and sends little
/// holds little.
const KEPT_BYTES_MIN: usize = 512;

/// Said to who speaks HTTP where TLS is spoken.
const NOT_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 45\r\n\r\nThis port speaks TLS: ask for https, not http";

/// One end of a session, with the bytes that it keeps.
pub(crate) struct Session<M = Box<dyn Machine>> {
    machine: M,
    kept: Option<Kept>,
    output: Option<Lease>,
    course: Course,
    /// Bytes of its handshake that may still come before we say something.
    handshake_left: usize,
    /// What the machine holds beside itself.
    charge: Option<Charge>,
}

/// Bytes at whose front `whole` bytes are records that rustls has seen and is not done with.
struct Kept {
    lease: Lease,
    whole: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Nothing has come.
    New,
    Handshake,
    Open,
    /// The peer has sent `close_notify`.
    Ended,
    Failed,
}

impl Session {
    /// Begins a session; a client's first message is its first output.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for what it may come to hold, and an alert's cause.
    pub(crate) fn new(pool: &Pool, machine: impl Machine + 'static, begins: bool) -> Result<Self, OverBudget> {
        let charge = pool.charge(Kind::Codec, HANDSHAKE_BYTES_MAX)?;
        let mut session = Self {
            machine: Box::new(machine),
            kept: None,
            output: None,
            course: Course::New,
            handshake_left: FLIGHT_BYTES_MAX,
            charge: Some(charge),
        };
        if begins {
            session.course = Course::Handshake;
            // A client that cannot say anything fails with the first thing that it is told.
            let _nothing_opened = session.take_in(pool, &mut []);
        }
        Ok(session)
    }
}

impl<M: DerefMut<Target: Machine>> Session<M> {
    /// Gives whole records to rustls. How many bytes it is done with, and the plaintext.
    fn take_in(&mut self, pool: &Pool, records: &mut [u8]) -> Result<(usize, Option<Lease>), OpenError> {
        let mut out = Out { records: self.output.take(), ..Out::default() };
        let (used, taken) = self.machine.take_in(pool, records, &mut out);
        if let Err(Failure::Peer(error)) = &taken {
            tracing::debug!(%error, "a TLS session fails");
            self.machine.write_alert(pool, &mut out);
        }
        if out.records.is_some() {
            self.handshake_left = FLIGHT_BYTES_MAX;
        }
        self.output = out.records;
        if let Err(failure) = taken {
            self.course = Course::Failed;
            return Err(failure.into());
        }
        if out.has_ended {
            self.course = Course::Ended;
        } else if self.is_shaking() {
            let is_handshaking = self.machine.is_handshaking();
            self.course = if is_handshaking { Course::Handshake } else { Course::Open };
            if !is_handshaking {
                self.settle();
            }
        }
        Ok((used, out.plaintext))
    }

    /// The handshake is over: what it held is given back.
    fn settle(&mut self) {
        let held_bytes = self.machine.held_bytes();
        if let Some(charge) = &mut self.charge {
            charge.shrink_to(held_bytes);
        }
    }

    /// Keeps bytes of which the first `whole` are records.
    fn keep(&mut self, pool: &Pool, bytes: &[u8], whole: usize) -> Result<(), OpenError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let size = match records::front(&bytes[whole..]) {
            Front::Record(len) => whole + len,
            Front::Header | Front::Malformed => whole + HEADER_BYTES,
        };
        let so_far = size.min((2 * bytes.len()).max(KEPT_BYTES_MIN));
        let mut lease = pool.try_acquire(so_far.max(bytes.len()), Kind::Codec)?;
        lease.extend(bytes);
        self.kept = Some(Kept { lease, whole });
        Ok(())
    }

    /// Opens what is whole, and keeps the rest.
    fn open_all(&mut self, pool: &Pool, mut received: &mut [u8]) -> Result<Plaintext, OpenError> {
        let mut plaintext = None;
        // Whatever comes behind the end is nobody's.
        while !received.is_empty() && self.course != Course::Ended {
            if let Some(mut kept) = self.kept.take() {
                let taken = kept.complete(pool, received)?;
                received = &mut received[taken..];
                let len = self.admitted(&kept.lease[kept.whole..])?;
                if !kept.is_whole() {
                    self.kept = Some(kept);
                    continue;
                }
                self.count(len);
                let (used, opened) = self.take_in(pool, kept.lease.as_mut_slice())?;
                join(pool, &mut plaintext, opened)?;
                if used < kept.lease.len() {
                    kept.lease.consume(used);
                    kept.whole = kept.lease.len();
                    self.check_message(kept.whole)?;
                    self.kept = Some(kept);
                }
                continue;
            }
            let first = self.admitted(received)?;
            // Of a handshake one after the other, as each may be the last.
            let whole = if self.is_shaking() { records::first(received) } else { records::whole(received) };
            if whole == 0 {
                self.keep(pool, received, 0)?;
                break;
            }
            self.count(first);
            let (records, rest) = core::mem::take(&mut received).split_at_mut(whole);
            received = rest;
            let (used, opened) = self.take_in(pool, records)?;
            join(pool, &mut plaintext, opened)?;
            self.check_message(whole - used)?;
            self.keep(pool, &records[used..], whole - used)?;
        }
        Ok(plaintext.map_or(Plaintext::InPlace(0), Plaintext::Lease))
    }

    fn is_shaking(&self) -> bool {
        matches!(self.course, Course::New | Course::Handshake)
    }

    /// How long the record at the front is, as far as that is known. One of a handshake that has no more bytes to come
    /// is refused when its header has come.
    fn admitted(&mut self, bytes: &[u8]) -> Result<usize, OpenError> {
        match records::front(bytes) {
            Front::Record(len) if self.is_shaking() && len > self.handshake_left => Err(self.too_long()),
            Front::Record(len) => Ok(len),
            Front::Header | Front::Malformed => Ok(0),
        }
    }

    fn count(&mut self, len: usize) {
        if self.is_shaking() {
            self.handshake_left -= len;
        }
    }

    /// What is kept of a message that is not whole has a limit after the handshake, too.
    fn check_message(&mut self, bytes: usize) -> Result<(), OpenError> {
        if bytes > FLIGHT_BYTES_MAX { Err(self.too_long()) } else { Ok(()) }
    }

    fn too_long(&mut self) -> OpenError {
        tracing::debug!("a TLS session fails: a message of its handshake is too long");
        self.course = Course::Failed;
        OpenError::Malformed
    }

    fn parts(&mut self) -> (&mut M::Target, &mut [u8]) {
        let kept = self.kept.as_mut().map(|kept| &mut kept.lease.as_mut_slice()[..kept.whole]);
        (&mut *self.machine, kept.unwrap_or_default())
    }
}

impl Kept {
    fn is_whole(&self) -> bool {
        matches!(records::front(&self.lease[self.whole..]), Front::Record(len) if self.whole + len == self.lease.len())
            || records::front(&self.lease[self.whole..]) == Front::Malformed
    }

    /// Takes what the record at its end lacks, and no more: how many bytes.
    fn complete(&mut self, pool: &Pool, received: &[u8]) -> Result<usize, OverBudget> {
        let mut taken = 0;
        // First the header, then what it promises.
        for _ in 0..2 {
            let size = match records::front(&self.lease[self.whole..]) {
                Front::Record(len) => len,
                Front::Header => HEADER_BYTES,
                Front::Malformed => break,
            };
            let wants = (self.whole + size).saturating_sub(self.lease.len());
            let part = wants.min(received.len() - taken);
            if self.lease.spare_capacity() < part {
                let more = part.max(wants.min(self.lease.len()));
                pool.try_grow(&mut self.lease, more)?;
            }
            self.lease.extend(&received[taken..taken + part]);
            taken += part;
        }
        Ok(taken)
    }
}

fn join(pool: &Pool, to: &mut Option<Lease>, more: Option<Lease>) -> Result<(), OverBudget> {
    let Some(more) = more else { return Ok(()) };
    match to {
        None => *to = Some(more),
        Some(lease) => {
            if lease.spare_capacity() < more.len() {
                pool.try_grow(lease, more.len())?;
            }
            lease.extend(&more);
        }
    }
    Ok(())
}

impl<M: DerefMut<Target: Machine>> Transport for Session<M> {
    fn open(&mut self, pool: &Pool, received: &mut [u8]) -> Result<Plaintext, OpenError> {
        match self.course {
            Course::Failed => return Err(OpenError::Malformed),
            Course::Ended => return Ok(Plaintext::InPlace(0)),
            Course::New if self.kept.is_none() && received.first().is_some_and(u8::is_ascii_uppercase) => {
                self.course = Course::Failed;
                self.output = pool.try_copy(NOT_HTTP, Kind::Buffers).ok();
                return Err(OpenError::PlainHttp);
            }
            Course::New | Course::Handshake | Course::Open => {}
        }
        let opened = self.open_all(pool, received);
        if opened.is_err() {
            (self.course, self.kept) = (Course::Failed, None);
        }
        opened
    }

    fn seal(&mut self, pool: &Pool, plaintext: &[u8]) -> Result<Lease, OverBudget> {
        if self.course == Course::Failed {
            return Err(OverBudget::new(0));
        }
        let (machine, kept) = self.parts();
        machine.seal(pool, kept, plaintext)
    }

    fn output(&mut self) -> Option<Lease> {
        self.output.take()
    }

    fn stage(&self) -> Stage {
        match self.course {
            Course::New | Course::Handshake => Stage::Handshake,
            Course::Open | Course::Failed => Stage::Open,
            Course::Ended => Stage::Ended,
        }
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.machine.protocol()
    }

    fn is_resumed(&self) -> bool {
        self.machine.is_resumed()
    }

    fn serves(&self, host: &str) -> bool {
        self.machine.serves(host)
    }

    fn has_partial(&self) -> bool {
        self.kept.is_some()
    }

    fn end(&mut self, room: &mut [u8; END_BYTES_MAX]) -> usize {
        if matches!(self.course, Course::New | Course::Handshake | Course::Failed) {
            return 0;
        }
        let (machine, kept) = self.parts();
        machine.end(kept, room)
    }

    fn tell(&self, place: &mut dyn Any) {
        if let Some(place) = place.downcast_mut::<Option<TlsInfo>>() {
            *place = Some(self.machine.info());
        }
    }

    fn packing(&self) -> Option<&'static &'static dyn Pack> {
        let is_at_rest = self.kept.is_none() && self.output.is_none() && self.course == Course::Open;
        self.machine.packing().filter(|_| is_at_rest)
    }

    fn pack(&mut self, bytes: &mut PackedBytes) -> Attached {
        self.machine.pack(bytes)
    }
}
