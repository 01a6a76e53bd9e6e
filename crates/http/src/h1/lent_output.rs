//! Output of HTTP/1.1 in leases of the [answer reserve](crate::memory::answer_reserve).

use plimsoll_runtime::Lease;
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::h1::active::Active;
use crate::memory::lasting::ExchangeId;
use crate::worker::connection::Connection;
use crate::worker::state::Core;

impl Core {
    /// As [`with`](Self::with). Where `act` finds no room, it runs once more with an output of the answer reserve, and
    /// what it wrote is handed to the socket. Without a lease there, or while output is still on its way, it stays at
    /// [`Error::OverBudget`].
    pub(crate) fn with_reserve<R>(
        &self,
        id: ExchangeId,
        mut act: impl FnMut(&mut Active) -> Result<R, Error>,
    ) -> Option<Result<R, Error>> {
        let mut is_lent = false;
        loop {
            let result = self.with(id, &mut act)?;
            if is_lent {
                self.send_lent(id.key());
            } else if matches!(result, Err(Error::OverBudget(_))) && self.lend(id.key()) {
                is_lent = true;
                continue;
            }
            return Some(result);
        }
    }

    /// Gives an exchange an output of the answer reserve; `false` if there is none for it.
    #[cold]
    fn lend(&self, key: Key) -> bool {
        let Some(mut active) = self.take(key) else { return false };
        let lent = self.reserve_for(key, &mut active).map(|lease| active.output.lend(lease));
        self.put(key, Connection::Active(active));
        lent.is_some()
    }

    /// Hands what was written to it to the socket.
    #[cold]
    fn send_lent(&self, key: Key) {
        let Some(mut active) = self.take(key) else { return };
        let spare = active.output.send_now(&mut self.table.borrow_mut(), key);
        if let Some(lease) = spare {
            self.reserve.put_back(lease);
        }
        self.put(key, Connection::Active(active));
    }

    /// A lease of the answer reserve for an exchange whose output before that has left.
    pub(crate) fn reserve_for(&self, key: Key, active: &mut Active) -> Option<Lease> {
        let mut table = self.table.borrow_mut();
        if table.is_sending(key) {
            return None;
        }
        if active.output.flush_now(&mut table, key) {
            return self.reserve.take();
        }
        // It waits for the socket then; without room for that, as every output.
        let _no_room = active.output.flush(&self.pool, &mut table, key);
        None
    }
}
