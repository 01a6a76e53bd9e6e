//! The honest client beside an attack.

use core::cell::Cell;
use core::time::Duration;
use std::rc::Rc;

use plimsoll_runtime::{JoinHandle, Result, sleep, spawn};

/// A client that asks again and again, and must be answered each time.
pub(crate) struct Honest {
    asking: JoinHandle<Result<u64>>,
    enough: Rc<Cell<bool>>,
}

impl Honest {
    /// Asks once before an attack begins, and then with a pause after each answer. `ask` asserts that the answer is
    /// right.
    pub(crate) async fn begin(pause: Duration, mut ask: impl AsyncFnMut() -> Result<()> + 'static) -> Result<Self> {
        ask().await?;
        let enough = Rc::new(Cell::new(false));
        let ends = Rc::clone(&enough);
        let asking = spawn(async move {
            let mut served = 0;
            while !ends.get() {
                ask().await?;
                served += 1;
                sleep(pause).await;
            }
            Ok(served)
        })?;
        Ok(Self { asking, enough })
    }

    /// Ends it; it was served, and the line was kept.
    pub(crate) async fn end(self) -> Result<()> {
        self.enough.set(true);
        let served = self.asking.await.expect("the honest client is content")?;
        assert!(served > 0, "an honest client was served during the attack");
        let budget = plimsoll_runtime::budget();
        assert!(budget.peak() <= budget.limit().as_bytes(), "{} bytes at the peak", budget.peak());
        Ok(())
    }
}
