//! Sessions that are a few bytes between records: after the handshake the record layer of TLS 1.3 is ours, and rustls
//! is let go of (RFC 8446 5).
//!
//! ```text
//!   handshake.rs   rustls, one record at a time ----- Finished -----> keys, secrets, sequence numbers
//!                                                                        |
//!   state.rs       208 bytes: in the connection's slot, or in a box      v
//!   layer.rs       records in and out; KeyUpdate, alerts, close_notify, limits
//!   keys.rs        a suite's numbers, HKDF, AEAD: keys are expanded for a call, and wiped by AWS-LC after it
//!   nonces.rs      for tests: no key seals with one nonce twice
//! ```
//!
//! **No nonce twice.** There is one copy of the state, and it is worked on where it lies: it cannot be cloned, and is
//! wiped where it is moved from. A record is sealed when there is room for it. The sequence number is moved on before,
//! so that whatever happens then no record gets it again.
#![forbid(unsafe_code)]

mod handshake;
mod keys;
mod layer;
pub mod nonces;
mod state;

use core::borrow::BorrowMut;

use plimsoll_runtime::net::transport::{Attached, Pack, PackedBytes, Transport};
use zeroize::Zeroize;

pub(crate) use handshake::{Becoming, SecretsCaught};
use layer::Layer;
use state::Owned;

use crate::session::Session;

/// How sessions are packed.
pub(crate) static PACKING: &dyn Pack = &Packing;

struct Packing;

impl Pack for Packing {
    fn with(
        &self,
        bytes: &mut PackedBytes,
        attached: &mut Attached,
        act: &mut dyn FnMut(&mut dyn Transport),
    ) -> Option<Box<dyn Transport>> {
        let mut layer = Layer::new(&mut *bytes, attached.take());
        let mut session = Session::again(&mut layer);
        act(&mut session);
        let (waits, is_open) = (session.into_waiting(), layer.is_open());
        *attached = layer.into_attached();
        if is_open && waits.is_nothing() {
            return None;
        }
        Some(Box::new(Session::unpacked(unpacked(bytes, attached), waits)))
    }

    fn unpack(&self, bytes: &mut PackedBytes, attached: &mut Attached) -> Box<dyn Transport> {
        Box::new(Session::again(unpacked(bytes, attached)))
    }

    fn unpacked_bytes(&self) -> u64 {
        (size_of::<Session>() + size_of::<Layer<Owned>>()) as u64
    }

    fn wipe(&self, bytes: &mut PackedBytes) {
        bytes.zeroize();
    }
}

fn unpacked(bytes: &mut PackedBytes, attached: &mut Attached) -> Box<dyn crate::machine::Machine> {
    let mut layer = Box::new(Layer::new(Owned::empty(), attached.take()));
    // From place to place: no copy is left on the way.
    BorrowMut::<PackedBytes>::borrow_mut(layer.bytes()).copy_from_slice(bytes);
    bytes.zeroize();
    layer
}

#[cfg(test)]
mod tests;
