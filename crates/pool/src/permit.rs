//! Permits, and the futures that wait for them.
#![forbid(unsafe_code)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::admission::{Admission, Grant};
use crate::budget::Charge;
use crate::footprint::Footprint;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::queue::PlaceKey;
use crate::waiters::{Answer, Request, Shed};

/// The buffers of an exchange, all of them there already: taking one cannot fail.
///
/// Dropping it gives back what was not taken, and grants what became free to whoever waits.
#[must_use = "dropping the permit gives its memory back"]
pub struct Permit {
    admission: Admission,
    granted: Grant,
}

impl Permit {
    pub(crate) fn new(admission: Admission, granted: Grant) -> Self {
        Self { admission, granted }
    }

    /// An empty lease of at least `len` bytes: the smallest that is left. `None` only beyond the footprint.
    pub fn take(&mut self, len: usize) -> Option<Lease> {
        let fits = self
            .granted
            .leases
            .iter_mut()
            .filter(|piece| piece.as_ref().is_some_and(|lease| lease.class().bytes() >= len));
        fits.min_by_key(|piece| piece.as_ref().map(Lease::class))?.take()
    }

    /// Keeps a lease for the next [`take`](Self::take), emptied. If the permit is full, it comes back.
    ///
    /// # Errors
    ///
    /// The lease, when there is no place for it.
    pub fn put_back(&mut self, mut lease: Lease) -> Result<(), Lease> {
        match self.granted.leases.iter_mut().find(|piece| piece.is_none()) {
            Some(place) => {
                lease.clear();
                *place = Some(lease);
                Ok(())
            }
            None => Err(lease),
        }
    }

    /// The charge beside the buffers, if one was [asked for](Reserve::charge) and is still there.
    pub fn take_charge(&mut self) -> Option<Charge> {
        self.granted.charge.take()
    }

    /// Bytes of the classes that were not taken.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.granted.leases.iter().flatten().map(|lease| lease.class().bytes() as u64).sum()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.granted = Grant { leases: [const { None }; Footprint::PARTS], charge: None };
        self.admission.pump();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("left_bytes", &self.left_bytes()).finish()
    }
}

/// A wait in the queue.
struct Turn {
    admission: Admission,
    state: TurnState,
}

enum TurnState {
    New(Request),
    Queued(PlaceKey),
    Done,
}

impl Turn {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Grant, Shed>> {
        let key = match self.state {
            TurnState::New(request) => {
                self.state = TurnState::Done;
                if let Some(grant) = self.admission.try_now(&request)? {
                    return Poll::Ready(Ok(grant));
                }
                self.admission.enqueue(request)?
            }
            TurnState::Queued(key) => key,
            TurnState::Done => panic!("polled after it was ready"),
        };
        // Before the waker's own code runs, which may panic: the waiter has its owner then.
        self.state = TurnState::Queued(key);
        let answer = match self.admission.poll(key, cx.waker()) {
            Answer::Wait => return Poll::Pending,
            Answer::Granted(grant) => Ok(grant),
            Answer::Shed(shed) => Err(shed),
        };
        self.state = TurnState::Done;
        Poll::Ready(answer)
    }

    fn set_deadline(&mut self, deadline_ns: u64) {
        if let TurnState::New(request) = &mut self.state {
            request.deadline_ns = deadline_ns;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let TurnState::Queued(key) = self.state {
            self.admission.cancel(key);
        }
    }
}

/// Waits for a permit. From [`Admission::reserve`].
///
/// # Errors
///
/// [`Shed`]: the deadline, or no room to wait.
///
/// Cancel safe: dropping it takes the waiter out of the queue; what it was granted goes to the next.
#[must_use = "futures do nothing unless they are polled"]
pub struct Reserve(Turn);

impl Reserve {
    pub(crate) fn new(admission: Admission, request: Request) -> Self {
        Self(Turn { admission, state: TurnState::New(request) })
    }

    /// Until when it may wait, in the time of [`Admission::tick`]. For before the first poll.
    pub fn deadline(mut self, deadline_ns: u64) -> Self {
        self.0.set_deadline(deadline_ns);
        self
    }

    /// Beside the buffers, a charge of so many bytes, for memory that is not the pool's. For before the first poll.
    ///
    /// It may be large, so who waits for one is patient: all who wait for buffers alone pass it, and nothing is kept
    /// for it. It is granted what is free when nobody else on this worker waits.
    ///
    /// ```
    /// use core::pin::pin;
    /// use core::task::{Context, Poll, Waker};
    /// use plimsoll_pool::{Admission, AdmissionConfig, Budget, Footprint, Kind, MemoryLimit};
    /// use plimsoll_pool::{Pool, PoolConfig, Priority};
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let admission = Admission::new(&pool, AdmissionConfig::default())?;
    /// let held = pool.charge(Kind::Buffers, 512 << 10)?;
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut waits = pin!(admission.reserve(Footprint::one(64), Priority::Body, 7).charge(768 << 10));
    /// assert!(waits.as_mut().poll(&mut cx).is_pending());
    /// drop(held);
    /// admission.tick(1_000_000);
    /// let Poll::Ready(Ok(mut permit)) = waits.as_mut().poll(&mut cx) else { panic!("there is room") };
    /// assert_eq!(permit.take_charge().map(|charge| charge.bytes()), Some(768 << 10));
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    pub fn charge(mut self, bytes: u64) -> Self {
        if let TurnState::New(request) = &mut self.0.state {
            request.charge_bytes = bytes;
        }
        self
    }

    /// What the memory is charged as; buffers, if nothing is said. For before the first poll.
    pub fn kind(mut self, kind: Kind) -> Self {
        if let TurnState::New(request) = &mut self.0.state {
            request.kind = kind;
        }
        self
    }
}

impl Future for Reserve {
    type Output = Result<Permit, Shed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let turn = &mut self.0;
        turn.poll(cx).map(|answer| answer.map(|grant| Permit::new(turn.admission.clone(), grant)))
    }
}

/// Waits for one buffer. From [`Admission::acquire`].
#[must_use = "futures do nothing unless they are polled"]
pub struct Acquire(Reserve);

impl Acquire {
    pub(crate) fn new(reserve: Reserve) -> Self {
        Self(reserve)
    }

    /// Until when it may wait, in the time of [`Admission::tick`]. For before the first poll.
    pub fn deadline(self, deadline_ns: u64) -> Self {
        Self(self.0.deadline(deadline_ns))
    }
}

impl Future for Acquire {
    type Output = Result<Lease, Shed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.0.poll(cx).map(|answer| {
            Ok(answer?.leases.into_iter().flatten().next().expect("one buffer was asked for and granted"))
        })
    }
}

macro_rules! opaque_debug {
    ($($name:literal $type:ty),*) => {
        $(impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($name)
            }
        })*
    };
}

opaque_debug!("Reserve" Reserve, "Acquire" Acquire);

#[cfg(test)]
mod tests;
