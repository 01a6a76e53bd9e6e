//! For tests and simulations: what a thread seals and opens with. No key seals with one nonce twice, and the numbers of
//! a key's records are in order, each way. In builds with assertions of debugging only.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::state::Way;

/// What was noted.
#[derive(Debug, Default)]
struct Noted {
    /// Keys with the nonces that they sealed with.
    sealed: BTreeSet<(Vec<u8>, [u8; 12])>,
    /// The number of the last record, of each key and way.
    last: BTreeMap<(bool, Vec<u8>), u64>,
    /// What was done that must not be.
    misuse: Option<&'static str>,
}

thread_local! {
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Notes until it is dropped.
#[derive(Debug)]
pub struct Watch(());

/// Begins to note what this thread seals and opens. A nonce that comes twice panics, and a number out of order.
pub fn watch() -> Watch {
    NOTED.with_borrow_mut(|noted| *noted = Some(Noted::default()));
    Watch(())
}

impl Watch {
    /// How many records were sealed.
    ///
    /// # Panics
    ///
    /// When something was done that must not be, and somebody has caught the panic of then.
    pub fn count(&self) -> usize {
        NOTED.with_borrow(|noted| {
            let noted = noted.as_ref().expect("there is a watch");
            assert_eq!(noted.misuse, None);
            noted.sealed.len()
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        NOTED.with_borrow_mut(|noted| *noted = None);
    }
}

impl Noted {
    fn note(&mut self, way: Way, key: &[u8], nonce: &[u8; 12], number: u64) -> Result<(), &'static str> {
        if way == Way::Out && !self.sealed.insert((key.to_vec(), *nonce)) {
            return Err("a record is sealed with a nonce that was used");
        }
        match self.last.insert((way == Way::Out, key.to_vec()), number) {
            Some(last) if last.checked_add(1) != Some(number) => Err("a record's number is not the next"),
            _ => Ok(()),
        }
    }
}

/// Notes a record that is sealed or opened next.
pub(super) fn note(way: Way, key: &[u8], nonce: &[u8; 12], number: u64) {
    let misuse = NOTED.with_borrow_mut(|noted| {
        let noted = noted.as_mut()?;
        let misuse = noted.note(way, key, nonce, number).err()?;
        Some(*noted.misuse.insert(misuse))
    });
    if let Some(misuse) = misuse {
        panic!("{misuse}");
    }
}
