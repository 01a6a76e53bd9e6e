//! For tests: every key and nonce that a thread seals with, none of which may come twice. In builds with assertions of
//! debugging only.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use std::collections::BTreeSet;

/// Keys with their nonces.
type Noted = BTreeSet<(Vec<u8>, [u8; 12])>;

thread_local! {
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Notes until it is dropped.
#[derive(Debug)]
pub struct Watch(());

/// Begins to note what this thread seals with. A nonce that comes twice panics.
pub fn watch() -> Watch {
    NOTED.with_borrow_mut(|noted| *noted = Some(BTreeSet::new()));
    Watch(())
}

impl Watch {
    /// How many records were sealed.
    pub fn count(&self) -> usize {
        NOTED.with_borrow(|noted| noted.as_ref().map_or(0, BTreeSet::len))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        NOTED.with_borrow_mut(|noted| *noted = None);
    }
}

pub(super) fn note(key: &[u8], nonce: &[u8; 12]) {
    NOTED.with_borrow_mut(|noted| {
        if let Some(noted) = noted {
            assert!(noted.insert((key.to_vec(), *nonce)), "a record is sealed with a nonce that was used");
        }
    });
}
