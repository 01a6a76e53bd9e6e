//! Output of HTTP/1.1 in leases of the [answer reserve](crate::memory::answer_reserve).

use plimsoll_runtime::Lease;
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::exchange::line::Line;
use crate::h1::active::Active;
use crate::h1::actives::{Actives, Http1};
use crate::memory::desk::Desk;
use crate::memory::lasting::ExchangeId;

impl<A: Actives> Http1<'_, A> {
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
        let lent = active.reserve_for(self, &mut self.line(key)).map(|lease| active.output.lend(lease));
        self.put_back(key, active);
        lent.is_some()
    }

    /// Hands what was written to it to the socket.
    #[cold]
    fn send_lent(&self, key: Key) {
        let Some(mut active) = self.take(key) else { return };
        let spare = self.line(key).send_lent(&mut active.output);
        if let Some(lease) = spare {
            self.reserve.put_back(lease);
        }
        self.put_back(key, active);
    }
}

impl Active {
    /// A lease of the answer reserve for an exchange whose output before that has left.
    pub(crate) fn reserve_for(&mut self, desk: &Desk, line: &mut impl Line) -> Option<Lease> {
        if line.is_sending() {
            return None;
        }
        if line.flush_now(&mut self.output) {
            return desk.reserve.take();
        }
        // It waits for the socket then; without room for that, as every output.
        let _no_room = line.flush(&desk.pool, &mut self.output);
        None
    }
}
