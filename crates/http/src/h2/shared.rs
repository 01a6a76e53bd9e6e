//! What the HTTP/2 connections of a worker share, and what their steps may use.

use ::core::cell::{Cell, RefCell};
use ::core::ops::Deref;

use plimsoll_codec::h1::{FIELDS_CEILING, FieldSlot};
use plimsoll_codec::h2::{Limits, Repeat};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool};

use super::streams::Exchange;
use super::waiting::HeldByWaiting;
use crate::memory::desk::Desk;

/// A response's fields, compressed, have at most so many bytes.
pub(super) const ENCODING_BYTES: usize = 16 * 1_024;

/// What the HTTP/2 connections of a worker share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(super) scratch: RefCell<Scratch>,
    /// An exchange that is over: the next one takes its place in the pool.
    pub(super) spare: Cell<Option<PoolBox<Exchange>>>,
    pub(super) waiting: HeldByWaiting,
}

/// What a step may use beside its connection and the socket of that.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(super) desk: &'a Desk,
    pub(super) shared: &'a Shared,
}

impl<'a> Env<'a> {
    pub(crate) fn new(desk: &'a Desk, shared: &'a Shared) -> Self {
        Self { desk, shared }
    }
}

impl Deref for Env<'_> {
    type Target = Desk;

    #[inline]
    fn deref(&self) -> &Desk {
        self.desk
    }
}

/// Memory that is written to and read within a step.
#[derive(Default)]
pub(super) struct Scratch {
    /// Lists of fields that came.
    pub(super) decoding: Option<PoolBox<Decoding>>,
    /// Blocks of fields that go: written to by handlers while the request is still being read.
    pub(super) encoding: Option<Lease>,
    /// Belongs to the latter; nothing is decoded there.
    pub(super) unused: Repeat,
}

pub(super) struct Decoding {
    pub(super) bytes: Lease,
    pub(super) slots: PoolBox<[FieldSlot; FIELDS_CEILING]>,
    pub(super) repeat: Repeat,
}

impl Scratch {
    /// Makes what is not there.
    pub(super) fn prepare(&mut self, pool: &Pool, limits: &Limits) -> Result<(), OverBudget> {
        if self.encoding.is_none() {
            self.encoding = Some(zeros(pool, ENCODING_BYTES)?);
        }
        if self.decoding.is_none() {
            self.decoding = Some(Decoding::new(pool, limits)?);
        }
        Ok(())
    }

    /// Takes what a turn decodes with: there is one turn at a time, so it is there nearly always.
    pub(super) fn take_decoding(&mut self, pool: &Pool, limits: &Limits) -> Result<PoolBox<Decoding>, OverBudget> {
        self.decoding.take().map_or_else(|| Decoding::new(pool, limits), Ok)
    }
}

impl Decoding {
    #[cold]
    fn new(pool: &Pool, limits: &Limits) -> Result<PoolBox<Self>, OverBudget> {
        let slots = pool.try_boxed([FieldSlot::EMPTY; FIELDS_CEILING], Kind::Codec).map_err(|(over, _)| over)?;
        let decoding = Self { bytes: zeros(pool, limits.scratch_bytes())?, slots, repeat: Repeat::default() };
        pool.try_boxed(decoding, Kind::Codec).map_err(|(over, _)| over)
    }
}

pub(super) fn zeros(pool: &Pool, bytes: usize) -> Result<Lease, OverBudget> {
    let mut lease = pool.try_acquire(bytes, Kind::Codec)?;
    while lease.len() < bytes {
        let left = bytes - lease.len();
        lease.extend(&[0; 1_024][..left.min(1_024)]);
    }
    Ok(lease)
}
