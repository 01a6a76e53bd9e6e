//! Suites of TLS 1.3, the keys that follow from secrets (RFC 8446 7), and what is done with keys. The algorithms are
//! AWS-LC's.
#![forbid(unsafe_code)]

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::tls13::OkmBlock;
use rustls::{CipherSuite, ConnectionTrafficSecrets, SupportedCipherSuite};
use zeroize::Zeroize;

use super::nonces;
use super::state::{State, Way};
use crate::records::HEADER_BYTES;

/// A traffic secret has the length of its suite's hash: 32 bytes or these.
pub(super) const SECRET_BYTES_MAX: usize = 48;
pub(super) const KEY_BYTES_MAX: usize = 32;
pub(super) const IV_BYTES: usize = 12;
/// Behind what is sealed, in every suite.
pub(super) const TAG_BYTES: usize = 16;
/// Records that AES-GCM may seal with one key (RFC 8446 5.5, draft-irtf-cfrg-aead-limits).
pub(super) const AES_RECORDS_MAX: u64 = 1 << 24;

/// A cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

impl Suite {
    /// That of a session, if it is one of those.
    pub(super) fn of(suite: SupportedCipherSuite) -> Option<Self> {
        match suite.suite() {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => Some(Self::Aes128),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => Some(Self::Aes256),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some(Self::ChaCha20),
            _ => None,
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Aes128,
            1 => Self::Aes256,
            _ => Self::ChaCha20,
        }
    }

    fn supported(self) -> SupportedCipherSuite {
        match self {
            Self::Aes128 => cipher_suite::TLS13_AES_128_GCM_SHA256,
            Self::Aes256 => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Self::ChaCha20 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128 => &AES_128_GCM,
            Self::Aes256 => &AES_256_GCM,
            Self::ChaCha20 => &CHACHA20_POLY1305,
        }
    }

    /// As IANA names it.
    pub(super) fn name(self) -> Option<&'static str> {
        self.supported().suite().as_str()
    }

    pub(super) fn secret_bytes(self) -> usize {
        if self == Self::Aes256 { SECRET_BYTES_MAX } else { 32 }
    }

    pub(super) fn key_bytes(self) -> usize {
        if self == Self::Aes128 { 16 } else { KEY_BYTES_MAX }
    }

    /// Records that may be sealed with one key.
    pub(super) fn records_max(self) -> u64 {
        if self == Self::ChaCha20 { u64::MAX } else { AES_RECORDS_MAX }
    }

    /// HKDF-Expand-Label (RFC 8446 7.1) without a context.
    fn expand(self, secret: &[u8], label: &[u8], into: &mut [u8]) {
        let suite = self.supported().tls13().expect("of TLS 1.3");
        let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret));
        let (len, prefix) = ((into.len() as u16).to_be_bytes(), b"tls13 ");
        let info: [&[u8]; 5] = [&len, &[(prefix.len() + label.len()) as u8], prefix, label, &[0]];
        expander.expand_slice(&info, into).expect("shorter than 255 hashes");
    }
}

impl State<'_> {
    /// Takes the first secret of a way, and the key that follows from it.
    pub(super) fn key_by(&mut self, way: Way, suite: Suite, secret: &[u8], sequence: u64) {
        self.secret(way, suite).copy_from_slice(secret);
        let mut key = [0; KEY_BYTES_MAX];
        suite.expand(secret, b"key", &mut key[..suite.key_bytes()]);
        self.key(way, suite).copy_from_slice(&key[..suite.key_bytes()]);
        key.zeroize();
        suite.expand(secret, b"iv", self.iv(way));
        self.set_sequence(way, sequence);
    }

    /// The next secret of a way, and its key (RFC 8446 7.2). Records are counted from 0 again.
    pub(super) fn next_key(&mut self, way: Way) {
        let suite = self.seen().suite();
        let mut next = [0; SECRET_BYTES_MAX];
        let next_secret = &mut next[..suite.secret_bytes()];
        suite.expand(self.secret(way, suite), b"traffic upd", next_secret);
        self.key_by(way, suite, next_secret, 0);
        next.zeroize();
    }

    /// Whether what rustls has for a way is what follows from the secret.
    pub(super) fn is_key(&mut self, way: Way, suite: Suite, extracted: &ConnectionTrafficSecrets) -> bool {
        let (which, key, iv) = match extracted {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Suite::ChaCha20, key, iv),
            _ => return false,
        };
        which == suite && key.as_ref() == &*self.key(way, suite) && iv.as_ref() == &self.iv(way)[..]
    }

    /// Expands the key of a way, for a call: AWS-LC wipes it when it is dropped.
    pub(super) fn expanded(&mut self, way: Way) -> LessSafeKey {
        let suite = self.seen().suite();
        LessSafeKey::new(UnboundKey::new(suite.algorithm(), self.key(way, suite)).expect("the length is its suite's"))
    }

    /// The initialization vector with a record's number in it (RFC 8446 5.3).
    fn nonce(&mut self, way: Way, sequence: u64) -> [u8; IV_BYTES] {
        let mut nonce = *self.iv(way);
        for (byte, number) in nonce[IV_BYTES - 8..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    fn noted_nonce(&mut self, way: Way, sequence: u64) -> [u8; IV_BYTES] {
        let nonce = self.nonce(way, sequence);
        if cfg!(debug_assertions) {
            let suite = self.seen().suite();
            nonces::note(way, self.key(way, suite), &nonce, sequence);
        }
        nonce
    }

    /// Opens the next record in place: how many bytes at its front are plaintext. `None` for what its peer has not
    /// sealed so, and when all numbers are used up.
    pub(super) fn unprotect(
        &mut self,
        key: &LessSafeKey,
        header: [u8; HEADER_BYTES],
        sealed: &mut [u8],
    ) -> Option<usize> {
        let sequence = self.take_sequence(Way::In)?;
        let nonce = self.noted_nonce(Way::In, sequence);
        let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(header), sealed);
        opened.ok().map(|plaintext| plaintext.len())
    }

    /// Seals the next record in place: what follows it. The number is taken before; `None` when all are used up.
    pub(super) fn protect(
        &mut self,
        key: &LessSafeKey,
        header: [u8; HEADER_BYTES],
        plaintext: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        let sequence = self.take_sequence(Way::Out)?;
        let nonce = self.noted_nonce(Way::Out, sequence);
        let tag = key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(header), plaintext);
        tag.ok()?.as_ref().try_into().ok()
    }
}
