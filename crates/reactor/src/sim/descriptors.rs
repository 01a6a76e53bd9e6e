//! The descriptor table: the lowest free number is given out first, as POSIX has it, so that a use after close hits
//! somebody else's descriptor here as it would there.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::objects::Object;
use crate::Errno;
use crate::fd::{Number, SIMULATED};

/// An open descriptor.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) object: Object,
    /// Operations that wait on it, in order of submission.
    pub(crate) waiting: Vec<u64>,
    /// When the latest completion of each direction becomes visible: later ones do not overtake it.
    pub(crate) visible_at: [u64; 2],
}

/// The table of the simulated process.
#[derive(Debug)]
pub(crate) struct Descriptors {
    open: BTreeMap<i32, Descriptor>,
    /// Free numbers below `fresh`.
    free: BTreeSet<i32>,
    /// The lowest number that was never used.
    fresh: i32,
    max: u32,
}

/// 0, 1 and 2 are taken in any process.
const FIRST: i32 = SIMULATED + 3;

impl Descriptors {
    pub(crate) const fn new(max: u32) -> Self {
        Self { open: BTreeMap::new(), free: BTreeSet::new(), fresh: FIRST, max }
    }

    /// `EMFILE` when the table is full.
    pub(crate) fn check_room(&self) -> Result<(), Errno> {
        if self.open.len() < self.max as usize { Ok(()) } else { Err(Errno(libc::EMFILE)) }
    }

    /// Opens the lowest free one.
    pub(crate) fn open(&mut self, object: Object) -> Result<Number, Errno> {
        self.check_room()?;
        let raw = self.free.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        let before = self.open.insert(raw, Descriptor { object, waiting: Vec::new(), visible_at: [0; 2] });
        assert!(before.is_none(), "a free number is free");
        Ok(Number::from_raw(raw))
    }

    pub(crate) fn close(&mut self, fd: Number) -> Option<Descriptor> {
        let descriptor = self.open.remove(&fd.raw())?;
        self.free.insert(fd.raw());
        Some(descriptor)
    }

    pub(crate) fn get(&self, fd: Number) -> Option<&Descriptor> {
        self.open.get(&fd.raw())
    }

    pub(crate) fn get_mut(&mut self, fd: Number) -> Option<&mut Descriptor> {
        self.open.get_mut(&fd.raw())
    }

    pub(crate) fn all(&self) -> Vec<Number> {
        self.open.keys().map(|&raw| Number::from_raw(raw)).collect()
    }
}
