//! The rows of the table of `docs/tls.md`, one by one: a layer against another with the secrets the other way round,
//! which can say what no peer should.

use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
use plimsoll_runtime::net::transport::{PACKED_BYTES, Pack, Transport};
use rustls::{AlertDescription, Error, PeerMisbehaved};

use super::keys::{AES_RECORDS_MAX, Suite, TAG_BYTES};
use super::layer::{Layer, attach};
use super::state::{Owned, Phase, Protocol, State, Way};
use super::{Packing, nonces};
use crate::machine::{Failure, Machine, Out};
use crate::records::HEADER_BYTES;
use crate::session::Session;

const SUITES: [Suite; 3] = [Suite::Aes128, Suite::Aes256, Suite::ChaCha20];
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// Two ends that know the same secrets.
struct Ends {
    pool: Pool,
    near: Layer<Owned>,
    far: Layer<Owned>,
}

/// What came of records.
#[derive(Debug, Default, PartialEq)]
struct Got {
    plaintext: Vec<u8>,
    records: Vec<u8>,
    has_ended: bool,
    error: Option<Error>,
}

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(4)), PoolConfig::default()).expect("room")
}

impl Ends {
    fn new(suite: Suite) -> Self {
        let ways = [(Way::In, Way::Out, 1_u8), (Way::Out, Way::In, 2)];
        let mut ends = Self {
            pool: pool(),
            near: Layer::begin(suite, Protocol::None, false, None),
            far: Layer::begin(suite, Protocol::None, false, None),
        };
        for (near, far, secret) in ways {
            let secret = vec![secret; suite.secret_bytes()];
            ends.near.state().key_by(near, suite, &secret, 0);
            ends.far.state().key_by(far, suite, &secret, 0);
        }
        ends
    }

    /// A record of the far end, whatever it says.
    fn forge(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut inner = [content, &[kind], &vec![0; padding]].concat();
        let [high, low] = ((inner.len() + TAG_BYTES) as u16).to_be_bytes();
        let header = [DATA, 3, 3, high, low];
        let mut state = self.far.state();
        let key = state.expanded(Way::Out);
        let tag = state.protect(&key, header, &mut inner).expect("numbers are left");
        [&header[..], &inner, &tag].concat()
    }

    /// A `KeyUpdate` of the far end, which seals with the next key then.
    fn forge_update(&mut self, is_asked: u8) -> Vec<u8> {
        let record = self.forge(HANDSHAKE, &[24, 0, 0, 1, is_asked], 0);
        self.far.state().next_key(Way::Out);
        record
    }

    fn give(&mut self, records: &[u8]) -> Got {
        give(&self.pool, &mut self.near, records)
    }

    /// What the near end says, as the far end hears it.
    fn hear(&mut self, records: &[u8]) -> Got {
        give(&self.pool, &mut self.far, records)
    }

    /// The alert that a failure is told by: it was sealed.
    fn alert(&mut self, got: &Got) -> AlertDescription {
        assert!(got.error.is_some(), "{got:?}");
        match self.hear(&got.records).error {
            Some(Error::AlertReceived(alert)) => alert,
            error => panic!("no alert, but {error:?}"),
        }
    }

    fn seal(&mut self, plaintext: &[u8]) -> Vec<u8> {
        self.near.seal(&self.pool, &mut [], plaintext).expect("room").to_vec()
    }
}

fn give(pool: &Pool, layer: &mut Layer<Owned>, records: &[u8]) -> Got {
    let (mut records, mut out) = (records.to_vec(), Out::default());
    let (_, result) = layer.take_in(pool, &mut records, &mut out);
    Got {
        plaintext: out.plaintext.map(|lease| lease.to_vec()).unwrap_or_default(),
        records: out.records.map(|lease| lease.to_vec()).unwrap_or_default(),
        has_ended: out.has_ended,
        error: result.err().map(|failure| match failure {
            Failure::Peer(error) => error,
            Failure::OverBudget(over) => panic!("{over}"),
        }),
    }
}

#[test]
fn what_is_sealed_is_opened_and_in_order() {
    for suite in SUITES {
        let mut ends = Ends::new(suite);
        for len in [1, 300, 16 * 1024] {
            let sealed = ends.seal(&vec![7; len]);
            assert_eq!(sealed.len(), len + 22);
            assert_eq!(ends.hear(&sealed).plaintext, vec![7; len], "{suite:?}");
        }
        let (first, second) = (ends.forge(DATA, b"first", 0), ends.forge(DATA, b"second", 0));
        assert_eq!(ends.give(&[first.clone(), second].concat()).plaintext, b"firstsecond");
        let replayed = ends.give(&first);
        assert_eq!(replayed.error, Some(Error::DecryptError), "a replay");
        assert_eq!(ends.alert(&replayed), AlertDescription::BadRecordMac);
        let mut ends = Ends::new(suite);
        let (_, second) = (ends.forge(DATA, b"first", 0), ends.forge(DATA, b"second", 0));
        assert_eq!(ends.give(&second).error, Some(Error::DecryptError), "one that came too early");
    }
}

#[test]
fn every_bit_of_a_record_is_authenticated() {
    for suite in SUITES {
        let record = Ends::new(suite).forge(DATA, b"hello", 3);
        for bit in 0..record.len() * 8 {
            let mut ends = Ends::new(suite);
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let got = ends.give(&flipped);
            assert!(got.error.is_some() && got.plaintext.is_empty(), "bit {bit}: {got:?}");
        }
    }
}

#[test]
fn the_additional_data_is_the_header_and_the_nonce_has_the_number() {
    // The record of RFC 8448 3 with 50 bytes from the server, by its secret; it is the server's second.
    let secret = hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
    let record = hex(
        "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e30efaf97d90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c\
         0047c2abf332540dd032e167c2955d",
    );
    let mut layer = Layer::begin(Suite::Aes128, Protocol::None, false, None);
    layer.state().key_by(Way::In, Suite::Aes128, &secret, 1);
    assert_eq!(layer.state().key(Way::In, Suite::Aes128), hex("9f02283b6c9c07efc26bb9f2ac92e356"));
    assert_eq!(&layer.state().iv(Way::In)[..], hex("cf782b88dd83549aadf1e984"));
    let got = give(&pool(), &mut layer, &record);
    assert_eq!((got.error, got.plaintext), (None, (0..50).collect()));
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

#[test]
fn numbers_end_before_they_come_again() {
    let mut ends = Ends::new(Suite::ChaCha20);
    for layer in [&mut ends.near, &mut ends.far] {
        layer.state().set_sequence(Way::In, u64::MAX - 1);
        layer.state().set_sequence(Way::Out, u64::MAX - 1);
    }
    // The last number is that of a change of keys.
    let sealed = ends.seal(b"after it");
    let heard = ends.hear(&sealed);
    assert_eq!((heard.error, &heard.plaintext[..]), (None, &b"after it"[..]));
    assert_eq!(ends.near.state().sequence(Way::Out), 1);
    // A peer that does not change them is not heard any more.
    let last = ends.forge(DATA, b"last", 0);
    assert_eq!(ends.give(&last).plaintext, b"last");
    let got = ends.give(&last);
    assert_eq!((got.error, ends.near.state().sequence(Way::In)), (Some(Error::DecryptError), u64::MAX));
    ends.near.state().set_sequence(Way::Out, u64::MAX);
    ends.near.state().set_phase(Phase::Open);
    let mut room = [0; 128];
    assert_eq!(ends.near.end(&mut [], &mut room), 0, "no number, no record");
    assert_eq!(room, [0; 128]);
}

#[test]
fn a_key_seals_no_more_records_than_it_may() {
    for suite in [Suite::Aes128, Suite::Aes256] {
        let watch = nonces::watch();
        let mut ends = Ends::new(suite);
        for (layer, way) in [(&mut ends.near, Way::Out), (&mut ends.far, Way::In)] {
            layer.state().set_sequence(way, AES_RECORDS_MAX - 2);
        }
        let (before, after) = (ends.seal(b"its last but one"), ends.seal(b"the first of the next"));
        assert_eq!((before.len(), after.len()), (22 + 16, 27 + 22 + 21), "a KeyUpdate and a record");
        assert_eq!(ends.near.state().sequence(Way::Out), 1);
        let heard = ends.hear(&[before, after].concat());
        assert_eq!((heard.error, heard.plaintext.len(), heard.records.len()), (None, 37, 0));
        assert_eq!(watch.count(), 3);
    }
}

#[test]
fn padding_is_taken_away_and_has_a_limit() {
    let mut ends = Ends::new(Suite::Aes128);
    let padded = ends.forge(DATA, b"padded", 9_000);
    assert_eq!(ends.give(&padded).plaintext, b"padded");
    let most = ends.forge(DATA, &[1; 10], 16 * 1024 - 10);
    assert_eq!(ends.give(&most).plaintext, [1; 10]);
    let beyond = ends.forge(DATA, &[1; 10], 16 * 1024 - 9);
    let got = ends.give(&beyond);
    assert_eq!(ends.alert(&got), AlertDescription::RecordOverflow);
    // Nothing but zeros has no type.
    let mut ends = Ends::new(Suite::Aes128);
    let zeros = ends.forge(0, &[], 20);
    let got = ends.give(&zeros);
    assert_eq!(got.error, Some(PeerMisbehaved::IllegalTlsInnerPlaintext.into()));
    assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage);
}

#[test]
fn a_record_has_a_length_that_is_allowed() {
    let mut ends = Ends::new(Suite::Aes256);
    let most = ends.forge(DATA, &[1; 16 * 1024], 0);
    assert_eq!(ends.give(&most).plaintext.len(), 16 * 1024);
    let beyond = ends.forge(DATA, &[1; 16 * 1024 + 1], 0);
    let got = ends.give(&beyond);
    assert_eq!(ends.alert(&got), AlertDescription::RecordOverflow, "one byte too many, sealed");
    for (len, alert) in [
        (16 * 1024 + 257, AlertDescription::RecordOverflow),
        (16, AlertDescription::BadRecordMac),
        (0, AlertDescription::BadRecordMac),
    ] {
        let mut ends = Ends::new(Suite::Aes256);
        let [high, low] = (len as u16).to_be_bytes();
        let got = ends.give(&[&[DATA, 3, 3, high, low][..], &vec![0; len]].concat());
        assert_eq!(ends.alert(&got), alert, "{len}");
    }
}

#[test]
fn types_that_are_not_expected_end_the_session() {
    for (outer, alert) in [
        (20, AlertDescription::UnexpectedMessage),
        (21, AlertDescription::BadRecordMac),
        (22, AlertDescription::BadRecordMac),
        (24, AlertDescription::DecodeError),
    ] {
        let mut ends = Ends::new(Suite::Aes128);
        let mut record = ends.forge(DATA, b"hello", 0);
        record[0] = outer;
        let got = ends.give(&record);
        assert_eq!(ends.alert(&got), alert, "outer {outer}");
    }
    for inner in [1, 20, 24, 255] {
        let mut ends = Ends::new(Suite::Aes128);
        let record = ends.forge(inner, &[1], 0);
        let got = ends.give(&record);
        assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage, "inner {inner}");
    }
    // A ClientHello, a certificate, a ticket: a handshake is over once it is. No early data either.
    for message in [1, 4, 5, 11, 20] {
        let mut ends = Ends::new(Suite::Aes128);
        let record = ends.forge(HANDSHAKE, &[message, 0, 0, 0], 0);
        let got = ends.give(&record);
        assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage, "message {message}");
    }
}

#[test]
fn keys_are_changed_by_either_end() {
    for suite in SUITES {
        let watch = nonces::watch();
        let mut ends = Ends::new(suite);
        let update = ends.forge_update(0);
        let data = ends.forge(DATA, b"with the next key", 0);
        let got = ends.give(&[update, data].concat());
        assert_eq!((got.error, &got.plaintext[..], got.records.len()), (None, &b"with the next key"[..], 0));
        // Two that ask are answered by one of ours.
        let both = [ends.forge_update(1), ends.forge_update(1)].concat();
        let got = ends.give(&both);
        assert_eq!((got.error, got.records.len()), (None, 27));
        assert!(ends.hear(&got.records).error.is_none());
        let sealed = ends.seal(b"with our next key");
        assert_eq!(ends.hear(&sealed).plaintext, b"with our next key");
        assert_eq!(watch.count(), 6);
    }
}

#[test]
fn a_change_of_keys_is_whole_alone_and_well_formed() {
    let mut ends = Ends::new(Suite::Aes128);
    let pieces: Vec<Vec<u8>> = [24, 0, 0, 1].map(|byte| ends.forge(HANDSHAKE, &[byte], 0)).into();
    let last = ends.forge(HANDSHAKE, &[0], 0);
    ends.far.state().next_key(Way::Out);
    let data = ends.forge(DATA, b"in five records", 0);
    assert_eq!(ends.give(&[pieces.concat(), last, data].concat()).plaintext, b"in five records");
    for (records, alert) in [
        (&[(HANDSHAKE, &[24, 0, 0][..]), (DATA, b"between")][..], AlertDescription::UnexpectedMessage),
        (&[(HANDSHAKE, &[24, 0, 0, 1, 0, 24])], AlertDescription::UnexpectedMessage),
        (&[(HANDSHAKE, &[24, 0, 0, 1, 2])], AlertDescription::IllegalParameter),
        (&[(HANDSHAKE, &[24, 0, 0, 2, 0])], AlertDescription::DecodeError),
    ] {
        let mut ends = Ends::new(Suite::Aes128);
        let forged: Vec<u8> = records.iter().flat_map(|(kind, content)| ends.forge(*kind, content, 0)).collect();
        let got = ends.give(&forged);
        assert_eq!(ends.alert(&got), alert, "{records:?}");
    }
}

#[test]
fn changes_of_keys_without_plaintext_are_limited() {
    let mut ends = Ends::new(Suite::ChaCha20);
    for _ in 0..3 {
        let updates: Vec<u8> = (0..32).flat_map(|_| ends.forge_update(0)).collect();
        assert_eq!(ends.give(&updates).error, None);
        let data = ends.forge(DATA, b"between", 0);
        assert_eq!(ends.give(&data).plaintext, b"between");
    }
    let updates: Vec<u8> = (0..33).flat_map(|_| ends.forge_update(1)).collect();
    let got = ends.give(&updates);
    assert_eq!(got.error, Some(PeerMisbehaved::TooManyKeyUpdateRequests.into()));
    assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage);
}

#[test]
fn who_sends_and_asks_for_keys_again_and_again_is_answered_once_before_plaintext() {
    let mut ends = Ends::new(Suite::Aes128);
    for _ in 0..2 {
        let mut said = Vec::new();
        for _ in 0..100 {
            let asked = [ends.forge_update(1), ends.forge(DATA, b"an upload", 0)].concat();
            let got = ends.give(&asked);
            assert_eq!((got.error, got.plaintext.as_slice()), (None, &b"an upload"[..]));
            said.extend(got.records);
        }
        assert_eq!(said.len(), 27, "a KeyUpdate");
        let answer = ends.seal(b"its answer");
        assert_eq!(answer.len(), 27 + 22 + 10, "another, and a record");
        let heard = ends.hear(&[said, answer].concat());
        assert_eq!((heard.error, heard.plaintext.as_slice()), (None, &b"its answer"[..]));
        assert_eq!(ends.seal(b"").len(), 0);
    }
}

#[test]
fn records_without_content_are_limited() {
    let mut ends = Ends::new(Suite::Aes128);
    for _ in 0..3 {
        let empties: Vec<u8> = (0..32).flat_map(|at| ends.forge(DATA, b"", at)).collect();
        assert_eq!(ends.give(&empties), Got::default());
        let data = ends.forge(DATA, b"between", 0);
        assert_eq!(ends.give(&data).plaintext, b"between");
    }
    let empties: Vec<u8> = (0..33).flat_map(|_| ends.forge(DATA, b"", 0)).collect();
    let got = ends.give(&empties);
    assert_eq!(got.error, Some(PeerMisbehaved::TooManyEmptyFragments.into()));
    assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage);
}

#[test]
fn alerts_are_fatal_but_for_those_that_mean_nothing() {
    let mut ends = Ends::new(Suite::Aes128);
    let cancels: Vec<u8> = (0..4).flat_map(|_| ends.forge(ALERT, &[1, 90], 0)).collect();
    assert_eq!(ends.give(&cancels), Got::default());
    let fifth = ends.forge(ALERT, &[1, 90], 0);
    let got = ends.give(&fifth);
    assert_eq!(ends.alert(&got), AlertDescription::UnexpectedMessage);
    for (content, alert) in [
        (&[1, 40][..], Some(AlertDescription::DecodeError)),
        (&[7, 40], Some(AlertDescription::IllegalParameter)),
        (&[2], Some(AlertDescription::DecodeError)),
        (&[2, 40, 0], Some(AlertDescription::DecodeError)),
        (&[], Some(AlertDescription::DecodeError)),
        // Nobody answers one that is fatal.
        (&[2, 40], None),
        (&[2, 90], None),
    ] {
        let mut ends = Ends::new(Suite::Aes128);
        let record = ends.forge(ALERT, content, 0);
        let got = ends.give(&record);
        match alert {
            Some(alert) => assert_eq!(ends.alert(&got), alert, "{content:?}"),
            None => assert!(got.error.is_some() && got.records.is_empty(), "{content:?}"),
        }
    }
}

#[test]
fn a_failure_is_final() {
    let mut ends = Ends::new(Suite::Aes128);
    let mut broken = ends.forge(DATA, b"broken", 0);
    broken[7] ^= 1;
    let got = ends.give(&broken);
    assert_eq!(ends.alert(&got), AlertDescription::BadRecordMac);
    let good = ends.forge(DATA, b"good", 0);
    let got = ends.give(&good);
    assert!(got.error.is_some() && got.plaintext.is_empty() && got.records.is_empty(), "{got:?}");
    assert!(ends.near.seal(&ends.pool, &mut [], b"nothing").is_err());
    assert_eq!(ends.near.end(&mut [], &mut [0; 128]), 0);
}

#[test]
fn the_end_is_said_once_and_the_peers_is_heard() {
    let mut ends = Ends::new(Suite::Aes128);
    let both =
        [ends.forge(DATA, b"the last", 0), ends.forge(ALERT, &[1, 0], 0), ends.forge(DATA, b"behind", 0)].concat();
    let got = ends.give(&both);
    assert_eq!((got.error, &got.plaintext[..], got.has_ended), (None, &b"the last"[..], true));
    // The other half is open.
    let sealed = ends.seal(b"an answer");
    assert_eq!(ends.hear(&sealed).plaintext, b"an answer");
    let mut room = [0; 128];
    let len = ends.near.end(&mut [], &mut room);
    let heard = ends.hear(&room[..len]);
    assert!(heard.has_ended && heard.error.is_none(), "{heard:?}");
    assert_eq!(ends.near.end(&mut [], &mut room), 0, "once");
    assert!(ends.near.seal(&ends.pool, &mut [], b"behind it").is_err());
    // A stream that is cut has no end: nothing says so.
    let mut ends = Ends::new(Suite::Aes128);
    let cut = ends.forge(DATA, b"not the last", 0);
    assert!(!ends.give(&cut).has_ended);
}

#[test]
fn nothing_is_sealed_without_room_and_what_was_sealed_is_not_sealed_again() {
    let watch = nonces::watch();
    let budget = Budget::new(MemoryLimit::mib(1));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("room");
    let mut ends = Ends::new(Suite::Aes128);
    let mut held = Vec::new();
    while let Ok(lease) = pool.try_acquire(16 * 1024, Kind::Buffers) {
        held.push(lease);
    }
    while let Ok(lease) = pool.try_acquire(1_000, Kind::Buffers) {
        held.push(lease);
    }
    for _ in 0..3 {
        assert!(ends.near.seal(&pool, &mut [], &[5; 10_000]).is_err());
        assert_eq!((ends.near.state().sequence(Way::Out), watch.count()), (0, 0), "no number was used");
    }
    drop(held);
    let sealed = ends.near.seal(&pool, &mut [], &[5; 10_000]).expect("room");
    assert_eq!((ends.near.state().sequence(Way::Out), watch.count()), (1, 1));
    assert_eq!(ends.hear(&sealed).plaintext, [5; 10_000]);
}

#[test]
#[should_panic(expected = "a record is sealed with a nonce that was used")]
fn who_watches_sees_a_nonce_that_comes_twice() {
    let _watch = nonces::watch();
    let mut ends = Ends::new(Suite::Aes128);
    ends.seal(b"one");
    ends.near.state().set_sequence(Way::Out, 0);
    ends.seal(b"two");
}

/// A state that is copied, as no code can but by its bytes, and used where it was and where it is.
#[test]
#[should_panic(expected = "a record is sealed with a nonce that was used")]
fn who_watches_sees_a_copy_that_seals() {
    let _watch = nonces::watch();
    let mut ends = Ends::new(Suite::ChaCha20);
    let mut slot = [0; PACKED_BYTES];
    ends.near.pack(&mut slot);
    let mut copy = slot;
    for bytes in [&mut slot, &mut copy] {
        let same = Packing.with(bytes, &mut None, &mut |transport| {
            transport.seal(&ends.pool, b"hello").expect("room");
        });
        assert!(same.is_none(), "at rest");
    }
}

#[test]
fn who_watches_sees_a_number_that_is_not_the_next() {
    for (way, number) in [(Way::Out, 7), (Way::In, 7), (Way::In, 0)] {
        let watch = nonces::watch();
        let mut ends = Ends::new(Suite::Aes256);
        let (one, two) = (ends.forge(DATA, b"one", 0), ends.forge(DATA, b"two", 0));
        ends.give(&one);
        ends.seal(b"one");
        ends.near.state().set_sequence(way, number);
        let caught = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            ends.give(&two);
            ends.seal(b"two");
        }));
        assert!(caught.is_err(), "{way:?} {number}");
        let told = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| watch.count()));
        assert!(told.is_err(), "it is known when a panic was caught, too");
    }
}

#[test]
fn keys_are_wiped_where_they_were() {
    let ends = Ends::new(Suite::Aes256);
    let mut slot = [0; PACKED_BYTES];
    let mut session = Session::again(Box::new(ends.near) as Box<dyn Machine>);
    assert!(session.packing().is_some());
    let mut attached = session.pack(&mut slot);
    let secret = [1; 48];
    let holds = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
    assert!(holds(&slot) && attached.is_none());
    assert!(session.packing().is_none(), "what is packed is gone from there");
    let unpacked = Packing.unpack(&mut slot, &mut attached);
    assert_eq!(slot, [0; PACKED_BYTES]);
    assert!(unpacked.packing().is_some());
    // One that is no longer at rest leaves the slot.
    let mut ends = Ends::new(Suite::Aes256);
    let mut session = Session::again(Box::new(ends.near) as Box<dyn Machine>);
    session.pack(&mut slot);
    ends.near = Layer::begin(Suite::Aes256, Protocol::None, false, None);
    let mut part = ends.forge(DATA, b"a part", 0);
    part.truncate(9);
    let boxed = Packing.with(&mut slot, &mut attached, &mut |transport| {
        let opened = transport.open(&ends.pool, &mut part);
        assert!(opened.is_ok(), "{opened:?}");
    });
    assert!(boxed.is_some_and(|session| session.has_partial()));
    assert_eq!(slot, [0; PACKED_BYTES]);
    slot = [9; PACKED_BYTES];
    Packing.wipe(&mut slot);
    assert_eq!(slot, [0; PACKED_BYTES]);
}

#[test]
fn what_was_agreed_on_is_kept() {
    let pool = pool();
    for (alpn, certificates) in [
        (None, vec![]),
        (Some(&b"h2"[..]), vec![]),
        (Some(&b"http/1.1"[..]), vec![vec![1; 700], vec![2; 1]]),
        (Some(&b"imap"[..]), vec![]),
        (Some(&b"imap"[..]), vec![vec![3; 300]]),
    ] {
        let protocol = Protocol::of(alpn);
        let named = if protocol == Protocol::Attached { alpn.unwrap_or_default() } else { &[] };
        let attached = attach(&pool, named, certificates.iter().map(|one| &one[..])).expect("room");
        assert_eq!(attached.is_none(), named.is_empty() && certificates.is_empty());
        let mut layer = Layer::begin(Suite::Aes256, protocol, true, attached);
        let mut slot = [0; PACKED_BYTES];
        let mut attached = layer.pack(&mut slot);
        let mut told = None;
        let same = Packing.with(&mut slot, &mut attached, &mut |transport| {
            told = crate::TlsInfo::of_transport(transport);
            assert_eq!(transport.protocol(), alpn);
        });
        assert!(same.is_none(), "a look changes nothing");
        let told = told.expect("it is TLS");
        assert_eq!((told.alpn.as_deref(), told.peer_certificates, told.is_resumed), (alpn, certificates, true));
        assert_eq!((told.version, told.suite), (Some(crate::Version::Tls13), Some("TLS13_AES_256_GCM_SHA384")));
    }
}

#[test]
fn a_header_is_as_long_as_it_is() {
    assert_eq!(HEADER_BYTES, 5);
    let mut bytes = [0; PACKED_BYTES];
    let mut state = State(&mut bytes);
    state.begin(Suite::ChaCha20, Protocol::Known(b"http/1.1"), false);
    assert_eq!((state.seen().suite(), state.seen().protocol()), (Suite::ChaCha20, Protocol::Known(b"http/1.1")));
    assert_eq!((state.seen().phase(), state.seen().is_resumed()), (Phase::Open, false));
}
