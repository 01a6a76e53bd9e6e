//! The stop of one server, while its runtime goes on.

use ::core::future::{Future, poll_fn};
use ::core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use ::core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stops a server: see [`Server::handle`](crate::Server::handle). Any thread may hold it.
#[derive(Clone, Debug, Default)]
pub struct ServerHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_asked: AtomicBool,
    /// Of the tasks that serve, by their numbers.
    wakers: Mutex<Vec<(usize, Waker)>>,
    /// Given out.
    numbers: AtomicUsize,
}

impl ServerHandle {
    /// Asks the server to stop as its runtime's stop does: no new connections, requests that were begun are answered,
    /// and connections that are idle are closed, all within
    /// [`Config::drain_timeout`](crate::Config::drain_timeout). Then what
    /// [`serve`](crate::Server::serve) gave is ready.
    pub fn stop(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        // They are woken with nothing locked: a waker may be anybody's code.
        let wakers = ::core::mem::take(&mut *self.wakers());
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Whether this server was asked to stop. Its runtime's stop does not count.
    pub fn is_stopping(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// Ready when it was asked.
    pub(crate) fn asked(&self) -> impl Future<Output = ()> {
        let number = self.0.numbers.fetch_add(1, Ordering::Relaxed);
        let mut asked = Asked { handle: self.clone(), number, known: None };
        poll_fn(move |cx| asked.poll(cx))
    }

    fn wakers(&self) -> MutexGuard<'_, Vec<(usize, Waker)>> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who waits to be asked.
struct Asked {
    handle: ServerHandle,
    number: usize,
    /// What is woken.
    known: Option<Waker>,
}

impl Asked {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.known = Some(cx.waker().clone());
            let _before = self.forget();
            self.handle.wakers().push((self.number, cx.waker().clone()));
        }
        // Looked at behind that: who asks takes the wakers afterwards.
        if self.handle.is_stopping() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The waker that was left, to be dropped with nothing locked.
    fn forget(&self) -> Option<(usize, Waker)> {
        let mut wakers = self.handle.wakers();
        let at = wakers.iter().position(|(number, _)| *number == self.number);
        at.map(|at| wakers.swap_remove(at))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _waker = self.forget();
    }
}
