//! A fuzz target: compact sessions of TLS beside those whose records rustls opens.
//!
//! Two servers shake hands with a client of rustls each. From then on both clients are ours ([`peer`]), and what they
//! send is chosen by the input: plaintext with padding, changes of keys, alerts, pieces of handshakes, any other type;
//! records flipped, cut, sent again or in another order; in any pieces, the first together with the end of the
//! handshake. Both servers seal what is asked for in between. Then:
//!
//! * both servers give the same plaintext and the same end, keep a part of a record or do not, and fail or do not.
//!   Where the compact one may be [stricter](Leeway), it may fail alone, and has given nothing that the other has not;
//! * one that fails tells its peer so when the other does, and opens nothing any more;
//! * the client opens all that the servers seal, and it is what they were asked for;
//! * no key and nonce come twice (`plimsoll_tls::nonces`).

mod near;
mod peer;

use near::Near;
use peer::{Heard, Peer};
use plimsoll_tls::nonces;

/// In what a compact session may differ, by what was said so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leeway {
    Nothing,
    /// A `KeyUpdate` came in pieces: rustls keeps their records, and the compact layer how many bytes it had.
    Pieces,
    /// It may refuse what rustls takes: a header that is not that of application data, because it is authenticated; a
    /// message of a handshake that cannot become a `KeyUpdate`, at its first byte.
    Stricter,
}

/// A server with its client.
struct Pair {
    near: Near,
    peer: Peer,
    /// Records that were made, and not given yet; the first may be the end of the handshake.
    pending: Vec<Vec<u8>>,
    heard: Heard,
}

impl Pair {
    fn new(is_compact: bool, suite: u8) -> Self {
        let (near, peer, finished) = peer::shake(is_compact, suite);
        Self { near, peer, pending: vec![finished], heard: Heard::default() }
    }

    fn say(&mut self, kind: u8, content: &[u8], padding: usize) {
        self.pending.push(self.peer.seal(kind, content, padding));
    }

    fn update_key(&mut self, is_asked: u8) {
        self.say(HANDSHAKE, &[24, 0, 0, 1, is_asked], 0);
        self.peer.next_key();
    }

    /// Between the pieces nothing may be.
    fn update_key_in_pieces(&mut self, place: u8) {
        let (front, back) = [24, 0, 0, 1, 0].split_at(1 + usize::from(place) % 4);
        self.say(HANDSHAKE, front, 1);
        if place > 200 {
            self.say(DATA, b"between", 0);
        }
        self.say(HANDSHAKE, back, 0);
        self.peer.next_key();
    }

    /// Flips a bit of what comes last; whether it is of type or version.
    fn flip(&mut self, place: usize, bit: u8) -> bool {
        let Some(record) = self.pending.last_mut().filter(|record| !record.is_empty()) else { return false };
        let at = place % record.len();
        record[at] ^= 1 << bit;
        at < 3
    }

    fn give(&mut self, pieces: &[u8]) {
        let records = std::mem::take(&mut self.pending).concat();
        self.near.give(&records, pieces);
        self.hear();
    }

    fn hear(&mut self) {
        let said = self.near.said();
        self.peer.hear(&said, &mut self.heard);
    }
}

/// Two servers, and what is left of an input.
struct Play<'a> {
    input: &'a [u8],
    pairs: [Pair; 2],
    leeway: Leeway,
    /// What both servers were asked to seal.
    sealed: Vec<u8>,
}

/// Any bytes as what two peers do.
pub fn session(data: &[u8]) {
    let watch = nonces::watch();
    let (&suite, input) = data.split_first().unwrap_or((&0, &[]));
    let pairs = [true, false].map(|is_compact| Pair::new(is_compact, suite));
    let mut play = Play { input, pairs, leeway: Leeway::Nothing, sealed: Vec::new() };
    for _ in 0..OPERATIONS_MAX {
        let Some(operation) = play.next() else { break };
        play.operate(operation % 16);
        if operation >= 128 {
            let pieces = [play.number(), play.number()];
            play.pairs.iter_mut().for_each(|pair| pair.give(&pieces));
            if !same(&play.pairs, play.leeway) {
                return;
            }
        }
    }
    let Play { mut pairs, leeway, sealed, .. } = play;
    pairs.iter_mut().for_each(|pair| pair.give(&[]));
    if same(&pairs, leeway) {
        end(&mut pairs, sealed);
        let near = &pairs[0].near;
        let is_at_rest = near.is_open() && !near.has_ended() && !near.has_partial();
        assert!(!is_at_rest || near.was_packed, "it is compact");
        // Without assertions nothing is noted.
        assert_eq!(watch.count() > 0, near.is_open() && cfg!(debug_assertions));
    }
}

impl Play<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&byte, left) = self.input.split_first()?;
        self.input = left;
        Some(byte)
    }

    fn number(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn allow(&mut self, leeway: Leeway) {
        self.leeway = self.leeway.max(leeway);
    }

    fn each(&mut self, act: impl FnMut(&mut Pair)) {
        self.pairs.iter_mut().for_each(act);
    }

    fn operate(&mut self, operation: u8) {
        match operation {
            0 | 1 => {
                let (len, padding) = (usize::from(self.number()) * 3, usize::from(self.number()));
                let content: Vec<u8> = (0..len).map(|at| at as u8 ^ operation).collect();
                self.each(|pair| pair.say(DATA, &content, padding));
            }
            2 | 3 => self.each(|pair| pair.update_key(operation % 2)),
            4 => {
                let many = self.number() % 40;
                self.each(|pair| (0..many).for_each(|_| pair.say(DATA, &[], 0)));
            }
            5 => {
                let many = self.number() % 40;
                self.each(|pair| (0..many).for_each(|_| pair.update_key(many % 2)));
            }
            6 => {
                let (content, len) = ([self.number(), self.number(), self.number()], usize::from(self.number()) % 4);
                self.each(|pair| pair.say(ALERT, &content[..len], 0));
            }
            7 => {
                let content: Vec<u8> = (0..self.number() % 8).map(|_| self.number()).collect();
                self.allow(Leeway::Stricter);
                self.each(|pair| pair.say(HANDSHAKE, &content, 0));
            }
            8 => {
                let place = self.number();
                self.allow(Leeway::Pieces);
                self.each(|pair| pair.update_key_in_pieces(place));
            }
            9 => {
                let (kind, content) = (self.number(), [self.number()]);
                if kind == HANDSHAKE {
                    self.allow(Leeway::Stricter);
                }
                self.each(|pair| pair.say(kind, &content, 2));
            }
            14 => {
                let len = if self.number().is_multiple_of(4) { 16 * 1024 + 1 } else { usize::from(self.number()) * 64 };
                self.each(|pair| pair.say(DATA, &vec![operation; len], 0));
            }
            15 => {
                let plaintext = vec![self.number(); 1 + usize::from(self.number())];
                if self.pairs.iter_mut().all(|pair| pair.near.seal(&plaintext)) {
                    self.sealed.extend_from_slice(&plaintext);
                }
                self.each(Pair::hear);
            }
            _ => self.tamper(operation),
        }
    }

    /// What comes is not what was sent.
    fn tamper(&mut self, operation: u8) {
        match operation {
            10 => {
                let (place, bit) = (u16::from_be_bytes([self.number(), self.number()]), self.number() % 8);
                let mut is_of_a_header = false;
                self.each(|pair| is_of_a_header |= pair.flip(usize::from(place), bit));
                if is_of_a_header {
                    self.allow(Leeway::Stricter);
                }
            }
            11 => self.each(|pair| pair.pending.extend(pair.pending.last().cloned())),
            12 => self.each(|pair| {
                if let [.., one, two] = &mut pair.pending[..] {
                    std::mem::swap(one, two);
                }
            }),
            _ => {
                let cut = usize::from(self.number());
                self.each(|pair| {
                    if let Some(record) = pair.pending.last_mut() {
                        record.truncate(record.len().saturating_sub(cut));
                    }
                });
            }
        }
    }
}

/// Both fail or do not, and have given the same. `false` when nothing is to be compared any more.
fn same([ours, theirs]: &[Pair; 2], leeway: Leeway) -> bool {
    let (got, expected) = (&ours.near, &theirs.near);
    if got.has_failed() && leeway == Leeway::Stricter {
        // Maybe before rustls did, or alone.
        assert!(expected.plaintext.starts_with(&got.plaintext), "it has given something else before");
        return false;
    }
    assert!(!got.has_failed() || expected.has_failed(), "the compact one fails alone");
    assert_eq!(got.has_failed(), expected.has_failed(), "rustls alone refuses it");
    assert!(got.plaintext == expected.plaintext, "{} bytes, not {}", got.plaintext.len(), expected.plaintext.len());
    assert_eq!(got.has_ended(), expected.has_ended());
    if got.has_failed() {
        assert!(ours.heard.alert.is_some() || theirs.heard.alert.is_none(), "the peer is told");
        return false;
    }
    if leeway == Leeway::Nothing {
        assert_eq!(got.has_partial(), expected.has_partial());
    }
    true
}

/// Both say the last, and the end.
fn end(pairs: &mut [Pair; 2], mut sealed: Vec<u8>) {
    let mut updates = Vec::new();
    for pair in pairs {
        let expected = if pair.near.seal(b"the last") { &b"the last"[..] } else { b"" };
        pair.near.end();
        pair.hear();
        updates.push(pair.heard.updates > 0);
        let had = sealed.len();
        sealed.extend_from_slice(expected);
        assert!(pair.heard.plaintext == sealed, "{} bytes heard of {}", pair.heard.plaintext.len(), sealed.len());
        sealed.truncate(had);
        assert_eq!(pair.heard.has_ended, pair.near.is_open(), "close_notify");
    }
    assert_eq!(updates[0], updates[1], "both have answered a KeyUpdate");
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// What one input may do.
const OPERATIONS_MAX: usize = 64;
