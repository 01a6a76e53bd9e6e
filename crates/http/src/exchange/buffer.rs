//! Buffers that a handler waits for, to fill them for its answer.

use plimsoll_pool::{Footprint, Priority};
use plimsoll_runtime::memory::admission;
use plimsoll_runtime::{Kind, Lease, OverBudget, now};

use crate::base::counters::Shed;
use crate::base::error::Error;
use crate::exchange::collect::Waits;
use crate::exchange::handle::ExchangeHandle;

/// Instead of a larger buffer that is not there: what is waited for is no longer than the last.
const LESS_BYTES: [usize; 2] = [16 * 1_024, 4 * 1_024];

impl ExchangeHandle {
    /// A buffer of so many bytes; a smaller one where memory is short. Waits for it, in turns over addresses, for
    /// [`memory_timeout`](crate::Config::memory_timeout) at most.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when it did not come in time.
    pub(crate) async fn await_buffer(&self, bytes: usize, want: Priority) -> Result<Lease, Error> {
        let smaller = LESS_BYTES.into_iter().filter(|less| *less < bytes);
        let mut least = bytes;
        for size in [bytes].into_iter().chain(smaller) {
            if let Ok(lease) = self.pool().try_acquire(size, Kind::Buffers) {
                return Ok(lease);
            }
            least = size;
        }
        let _waits = self.desk().map(Waits::begin);
        let reserve = admission().reserve(Footprint::new().out(least), want, self.host());
        let granted = reserve.deadline((now() + self.config().memory_timeout).as_nanos()).await;
        match granted.map(|mut permit| permit.take(least)) {
            Ok(Some(lease)) => Ok(lease),
            _ => {
                if let Some(desk) = self.desk() {
                    desk.shed_for_room(Shed::Output);
                }
                Err(OverBudget::new(least as u64).into())
            }
        }
    }
}
