//! The numbers that senders give their messages: what has come before, and what is missing.

use std::collections::BTreeMap;

use plimsoll_pool::{Charge, Kind};

/// What a sender is charged beside its name: its entry at half-full nodes, with their share of inner nodes.
const SENDER_BYTES: usize = 128;

/// The last numbers of several senders, each of which counts its messages up: for what carries messages at most once,
/// so that a gap in the numbers is what was lost, and a number that is not new comes again.
///
/// It holds so many senders at most, charged to the runtime's budget. One more takes the place of whoever was silent
/// for longest, and so does one for which the line has no room; a sender that was forgotten begins anew.
///
/// ```
/// use plimsoll_http::Sequences;
///
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let mut sequences = Sequences::new(1_000);
/// assert_eq!(sequences.note("ada", 7), Some(0), "the first number of a sender says nothing of those before it");
/// assert_eq!(sequences.note("ada", 8), Some(0));
/// assert_eq!(sequences.note("ada", 12), Some(3), "three are missing before it");
/// assert_eq!(sequences.note("ada", 9), None, "it came before, or too late");
/// # }); Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Sequences {
    senders_max: usize,
    senders: BTreeMap<Box<str>, Sender>,
    /// Numbers noted.
    noted: u64,
}

#[derive(Debug)]
struct Sender {
    last: u64,
    /// When it was heard last, as a count of numbers noted.
    heard: u64,
    _charge: Charge,
}

impl Sequences {
    /// For so many senders, at least one.
    #[must_use]
    pub fn new(senders_max: usize) -> Self {
        Self { senders_max: senders_max.max(1), senders: BTreeMap::new(), noted: 0 }
    }

    /// Notes the number of a message: how many are missing between it and the last of its sender, or `None` if it is
    /// not newer than that.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, for a new sender.
    pub fn note(&mut self, sender: &str, number: u64) -> Option<u64> {
        self.noted += 1;
        if let Some(known) = self.senders.get_mut(sender) {
            let lost = number.checked_sub(known.last)?.checked_sub(1)?;
            (known.last, known.heard) = (number, self.noted);
            return Some(lost);
        }
        if self.senders.len() >= self.senders_max {
            self.forget_one();
        }
        // At the line others have to go for it; without any, it is not known.
        let bytes = (SENDER_BYTES + sender.len()) as u64;
        let charge = loop {
            match plimsoll_runtime::budget().charge(Kind::Slots, bytes) {
                Ok(charge) => break charge,
                Err(_) if self.senders.is_empty() => return Some(0),
                Err(_) => self.forget_one(),
            }
        };
        self.senders.insert(sender.into(), Sender { last: number, heard: self.noted, _charge: charge });
        Some(0)
    }

    /// How many senders are known.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Forgets whoever was silent for longest.
    fn forget_one(&mut self) {
        let silent = self.senders.iter().min_by_key(|(_, sender)| sender.heard).map(|(name, _)| name.clone());
        if let Some(name) = silent {
            self.senders.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests;
