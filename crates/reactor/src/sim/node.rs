//! The backend of a simulated driver: the driver's own half (its receive buffer, its keys), in front of the world's
//! kernel.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::rc::Rc;

use plimsoll_pool::{Lease, Pool};
use plimsoll_slab::Key;

use super::{NodeId, World};
use crate::fd::Number;
use crate::net::{ListenOptions, Shared, SocketKind, SocketOption};
use crate::op::{Errno, Op, Shutdown};
use crate::received::{RECEIVE_BUFFER_BYTES, Received, Shelf};
use crate::slots::{Raw, SlotState, Slots};
use crate::{Address, Doorbell, Error, Instant, Wait};

/// A driver's place in a world.
///
/// What the backend calls is not inlined: profiles of programs in a simulated world must tell the world from the
/// program.
#[derive(Debug)]
pub(crate) struct Sim {
    world: World,
    node: NodeId,
    /// One scratch buffer, which is filled from `cursor` on while something in it is lent.
    shelf: Rc<Shelf>,
    cursor: usize,
    /// The kernel's number of each operation in flight.
    flights: BTreeMap<Key, u64>,
}

/// The scratch buffer.
const SCRATCH: u16 = 0;

impl Sim {
    pub(crate) fn new(world: &World, pool: &Pool, doorbell: &Doorbell) -> Result<Self, Error> {
        let shelf = Shelf::new(pool, 1)?;
        let node = world.kernel_mut().nodes.register(doorbell.clone());
        Ok(Self { world: world.clone(), node, shelf, cursor: 0, flights: BTreeMap::new() })
    }

    /// Its name in the world.
    pub(crate) const fn node(&self) -> NodeId {
        self.node
    }

    #[inline(never)]
    pub(crate) fn start(&mut self, key: Key, slots: &mut Slots) {
        let slot = slots.get(key).expect("an operation is in its slot when it starts");
        let id = self.world.kernel_mut().start(self.node, key, &slot.op);
        let before = self.flights.insert(key, id);
        assert!(before.is_none(), "a key is in flight once");
    }

    #[inline(never)]
    pub(crate) fn cancel(&mut self, key: Key, _slots: &mut Slots) {
        if let Some(&id) = self.flights.get(&key) {
            self.world.kernel_mut().cancel(id);
        }
    }

    #[inline(never)]
    pub(crate) fn enter(&mut self, wait: Wait, _slots: &mut Slots) -> Result<(), Errno> {
        let room = self.room();
        self.world.kernel_mut().enter(self.node, wait, room)
    }

    #[inline(never)]
    pub(crate) fn next(&mut self, slots: &mut Slots) -> Option<Raw> {
        let at = self.deliverable()?;
        let mut kernel = self.world.kernel_mut();
        let node = kernel.nodes.get_mut(self.node);
        node.visible -= 1;
        let id = node.done.remove(at).expect("found just now");
        let (key, outcome) = kernel.take(id);
        let before = self.flights.remove(&key);
        assert_eq!(before, Some(id), "completions come once");
        let slot = slots.get_mut(key).expect("an operation keeps its slot until its completion is taken");
        if slot.state == SlotState::Orphaned {
            kernel.census.orphaned += 1;
        }
        drop(kernel);
        let received = match &mut slot.op {
            Op::Receive { .. } if slot.state != SlotState::Orphaned => self.lend(&outcome.bytes),
            Op::ReceiveInto { lease, .. } | Op::ReadAt { lease, .. } | Op::Stat { lease, .. } => {
                let spare = &mut lease.spare_mut()[..outcome.bytes.len()];
                spare.iter_mut().zip(&outcome.bytes).for_each(|(room, byte)| _ = room.write(*byte));
                None
            }
            _ => None,
        };
        Some(Raw { key, result: outcome.result, received })
    }

    /// The first completion that can be taken now, of those that this turn sees.
    fn deliverable(&self) -> Option<usize> {
        let kernel = self.world.kernel();
        let visible = kernel.nodes.get(self.node).visible > 0;
        visible.then(|| kernel.deliverable(self.node, self.room())).flatten()
    }

    /// Received bytes that fit into the scratch buffer.
    fn room(&self) -> usize {
        if self.shelf.lent(SCRATCH) == 0 { RECEIVE_BUFFER_BYTES } else { RECEIVE_BUFFER_BYTES - self.cursor }
    }

    /// Places received bytes in the scratch buffer.
    fn lend(&mut self, bytes: &[u8]) -> Option<Received> {
        if bytes.is_empty() {
            return None;
        }
        if self.shelf.lent(SCRATCH) == 0 {
            self.cursor = 0;
        }
        let filled = self.shelf.fill(SCRATCH, self.cursor, bytes.len(), |room| {
            room.copy_from_slice(bytes);
            Ok::<usize, Errno>(bytes.len())
        });
        let received = filled.unwrap_or_else(|errno| unreachable!("copying does not fail with {errno}"));
        self.cursor += bytes.len();
        debug_assert!(self.cursor <= RECEIVE_BUFFER_BYTES, "what was lent fits");
        received
    }

    #[inline(never)]
    pub(crate) fn has_ready(&self) -> bool {
        self.deliverable().is_some()
    }

    #[inline(never)]
    pub(crate) fn is_short_of_buffers(&self) -> bool {
        self.world.kernel().is_held_up(self.node, self.room())
    }

    #[inline(never)]
    pub(crate) fn now(&self) -> Instant {
        self.world.now()
    }

    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.shelf.bytes()
    }

    #[inline(never)]
    pub(crate) fn enobufs_total(&self) -> u64 {
        self.world.kernel().nodes.get(self.node).enobufs
    }

    #[inline(never)]
    pub(crate) fn listen(&mut self, address: Address, options: &ListenOptions) -> Result<Number, Error> {
        self.world.kernel_mut().listen(address, options)
    }

    #[inline(never)]
    pub(crate) fn share(&mut self, listener: Number) -> Result<Shared, Errno> {
        self.world.kernel_mut().share(listener)
    }

    #[inline(never)]
    pub(crate) fn socket(&mut self, kind: SocketKind) -> Result<Number, Errno> {
        self.world.kernel_mut().socket(kind)
    }

    #[inline(never)]
    pub(crate) fn accept_now(&mut self, listener: Number) -> Result<Option<Number>, Errno> {
        self.world.kernel_mut().accept(listener)
    }

    #[inline(never)]
    pub(crate) fn close_now(&mut self, fd: Number) {
        let closed = self.world.kernel_mut().close(fd);
        debug_assert!(closed.is_ok(), "only open descriptors are closed: {fd:?}");
    }

    #[inline(never)]
    pub(crate) fn send_now(&mut self, fd: Number, bytes: &[u8]) -> Result<usize, Errno> {
        self.world.kernel_mut().send_now(fd, bytes)
    }

    #[inline(never)]
    pub(crate) fn shutdown_now(&mut self, fd: Number, how: Shutdown) -> Result<(), Errno> {
        self.world.kernel_mut().shutdown_now(fd, how)
    }

    #[inline(never)]
    pub(crate) fn discard_now(&mut self, fd: Number, bytes_max: usize) -> Result<usize, Errno> {
        self.world.kernel_mut().discard_now(fd, bytes_max)
    }

    #[inline(never)]
    pub(crate) fn receive_now(
        &mut self,
        fd: Number,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        self.world.kernel_mut().receive_now(fd, leases, bytes_max)
    }

    #[inline(never)]
    pub(crate) fn read_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        self.world.kernel_mut().read_now(fd, room)
    }

    #[inline(never)]
    pub(crate) fn send_vectored_now(&mut self, fd: Number, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.world.kernel_mut().send_vectored_now(fd, slices)
    }

    #[inline(never)]
    pub(crate) fn peek_now(&mut self, fd: Number, room: &mut [u8]) -> Result<usize, Errno> {
        self.world.kernel_mut().peek_now(fd, room)
    }

    #[inline(never)]
    pub(crate) fn refuse_connects(&mut self, listener: Number) -> Result<(), Errno> {
        self.world.kernel_mut().refuse_connects(listener)
    }

    #[inline(never)]
    pub(crate) fn is_readable_now(&mut self, fd: Number) -> bool {
        self.world.kernel_mut().is_readable_now(fd)
    }

    #[inline(never)]
    pub(crate) fn is_gone_now(&mut self, fd: Number) -> bool {
        self.world.kernel_mut().is_gone_now(fd)
    }

    #[inline(never)]
    pub(crate) fn local_address(&self, fd: Number) -> Result<Address, Errno> {
        self.world.kernel().local_address(fd)
    }

    #[inline(never)]
    pub(crate) fn peer_address(&self, fd: Number) -> Result<Address, Errno> {
        self.world.kernel().peer_address(fd)
    }

    #[inline(never)]
    pub(crate) fn set_option(&mut self, fd: Number, option: SocketOption) -> Result<(), Errno> {
        self.world.kernel_mut().set_option(fd, option)
    }

    /// Leaves the world; what is in flight is forgotten there.
    pub(crate) fn retire(&mut self) {
        self.world.kernel_mut().retire(self.node);
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.retire();
    }
}
