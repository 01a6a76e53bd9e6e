//! Values that belong to a worker, in an owner that other threads may have.
//!
//! Streams, timers and tasks stay on their worker and are not [`Send`]. Crates that were written for runtimes whose
//! tasks move ask for `Send` all the same, often of things that never leave their thread. [`OnWorker`] is for those: it
//! may be moved anywhere, is used on its worker only, and what it owns is dropped there, wherever it is dropped itself.
//!
//! The values of a worker are in one list, which belongs to a task of that worker. An owner that is dropped elsewhere
//! notes which value is not wanted any more, in a place that was made when the value came, and wakes the task: that
//! can neither fail nor allocate. When the worker ends, it drops the values that are left.
#![forbid(unsafe_code)]

use core::any::Any;
use core::fmt;
use core::future::{Future, poll_fn};
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_pool::catch_panic;
use plimsoll_reactor::PoolPage;
use plimsoll_slab::{Key, Slab};

use crate::Result;
use crate::worker::Worker;

/// Pages of a worker's list at most.
const CHUNKS_MAX: u32 = 4_096;

/// Values that were dropped elsewhere and are dropped in one turn.
const DROPS_MAX: u32 = 64;

/// A value of a worker, in an owner that any thread may have.
///
/// Not every thread may use it: [`with`](Self::with) and polling it panic on any other worker or thread than its own,
/// with a text that says so. Dropping it is allowed everywhere; the value is dropped on its worker, soon.
///
/// Each costs an entry of 24 bytes under the line, and on the heap a box and the room to note its key.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_runtime::{OnWorker, sleep};
///
/// fn only_send<T: Send + Sync>(value: T) -> T { value }
///
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let pause = only_send(OnWorker::new(sleep(Duration::from_millis(1)))?);
/// pause.await;
/// let other = only_send(OnWorker::new(String::from("of this worker"))?);
/// std::thread::spawn(move || drop(other)).join().expect("it may be dropped there");
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
pub struct OnWorker<T: 'static> {
    home: Arc<Home>,
    key: Key,
    /// It owns a value, but not in the sense that asks for `T: Send`.
    value: PhantomData<fn() -> T>,
}

impl<T: 'static> OnWorker<T> {
    /// Makes a value one of this worker.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`](crate::Error::OverBudget) when its entry does not fit under the line, and the value is
    /// dropped.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn new(value: T) -> Result<Self> {
        let worker = Worker::current();
        let values = Values::of(&worker)?;
        let key = values.insert(&worker, Box::new(value))?;
        Ok(Self { home: Arc::clone(&values.home), key, value: PhantomData })
    }

    /// Uses the value.
    ///
    /// # Panics
    ///
    /// On another worker or thread than the value's own, and after its worker has ended.
    #[track_caller]
    pub fn with<R>(&mut self, act: impl FnOnce(&mut T) -> R) -> R {
        let values = self.values();
        // Nothing is borrowed while the value's code runs, and a panic of it leaves the value where it was.
        let mut taken = Taken { values: &values, key: self.key, value: values.take(self.key) };
        let value = taken.value.as_mut().and_then(|value| value.downcast_mut());
        act(value.expect("an owner has a value of its type"))
    }

    /// Gives the value back.
    ///
    /// # Panics
    ///
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn into_inner(self) -> T {
        let value = self.values().take(self.key).and_then(|value| value.downcast().ok());
        *value.expect("an owner has a value of its type")
    }

    /// Whether this is the value's worker, so that it may be used.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.try_values().is_some()
    }

    fn try_values(&self) -> Option<Rc<Values>> {
        Values::existing(&*Worker::try_current()?).filter(|values| Arc::ptr_eq(&values.home, &self.home))
    }

    #[track_caller]
    fn values(&self) -> Rc<Values> {
        self.try_values().expect(
            "a value of a worker was used on another thread or worker, or after its worker had ended: keep the task \
             that uses it on the worker that made it",
        )
    }
}

impl<T: 'static> Drop for OnWorker<T> {
    fn drop(&mut self) {
        match self.try_values() {
            Some(values) => drop(values.remove(self.key)),
            None => self.home.note_unwanted(self.key),
        }
    }
}

impl<T> fmt::Debug for OnWorker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnWorker").field("is_here", &self.is_here()).finish_non_exhaustive()
    }
}

/// Polls the value; for futures that may move, which a boxed one may.
impl<F: Future + Unpin> Future for OnWorker<F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.with(|future| Pin::new(future).poll(cx))
    }
}

/// A value that is used; it goes back, also when its use panics.
struct Taken<'v> {
    values: &'v Values,
    key: Key,
    value: Option<Box<dyn Any>>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        // Without an entry the worker has ended meanwhile, and drops what it has.
        if let Some(entry) = self.values.list.borrow_mut().get_mut(self.key) {
            *entry = Some(value);
        }
    }
}

/// The values of a worker. A task of the worker owns it.
struct Values {
    home: Arc<Home>,
    /// `None` while a value is used.
    list: RefCell<Slab<Option<Box<dyn Any>>, PoolPage>>,
}

impl Values {
    /// Those of a worker, if it has any.
    fn existing(worker: &Worker) -> Option<Rc<Self>> {
        let known = worker.values.borrow().upgrade()?;
        Some(known.downcast().unwrap_or_else(|_| unreachable!("nothing else is kept there")))
    }

    fn of(worker: &Worker) -> Result<Rc<Self>> {
        if let Some(values) = Self::existing(worker) {
            return Ok(values);
        }
        let values = Rc::new(Self { home: Arc::default(), list: RefCell::new(Slab::new(CHUNKS_MAX)) });
        let task = Rc::clone(&values);
        drop(crate::spawn(poll_fn(move |cx| task.poll_unwanted(cx)))?);
        let known: Rc<dyn Any> = Rc::clone(&values) as _;
        worker.values.replace(Rc::downgrade(&known));
        Ok(values)
    }

    fn insert(&self, worker: &Worker, value: Box<dyn Any>) -> Result<Key> {
        let mut list = self.list.borrow_mut();
        if list.vacant().is_none() {
            PoolPage::add(&worker.pool, |page| list.grow(page))?;
        }
        self.home.make_room(list.len() + 1);
        Ok(list.insert(Some(value)).unwrap_or_else(|_| unreachable!("room was made")))
    }

    fn take(&self, key: Key) -> Option<Box<dyn Any>> {
        self.list.borrow_mut().get_mut(key)?.take()
    }

    fn remove(&self, key: Key) -> Option<Box<dyn Any>> {
        let mut list = self.list.borrow_mut();
        let removed = list.remove(key).flatten();
        let page = if list.empty_chunks() > 1 { list.release_empty() } else { None };
        if page.is_some() {
            self.home.keep_room(list.len());
        }
        drop((list, page));
        removed
    }

    /// Drops what was noted, for ever: the task's turn.
    fn poll_unwanted(&self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..DROPS_MAX {
            let Some(key) = self.home.next_unwanted(cx) else { return Poll::Pending };
            // A panic of one value must not take the list with it, which is the task's.
            catch_panic(|| drop(self.remove(key)));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// What owners on other threads know of a worker's values.
#[derive(Default)]
struct Home(Mutex<Unwanted>);

#[derive(Default)]
struct Unwanted {
    /// Values whose owners were dropped elsewhere. There is room for all that there are.
    keys: Vec<Key>,
    task: Option<Waker>,
}

impl Home {
    fn lock(&self) -> MutexGuard<'_, Unwanted> {
        // What is done under the lock cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_room(&self, values: usize) {
        let mut unwanted = self.lock();
        let noted = unwanted.keys.len();
        unwanted.keys.reserve(values.saturating_sub(noted));
    }

    /// After a crowd: room for so many values is enough.
    fn keep_room(&self, values: usize) {
        self.lock().keys.shrink_to(2 * values);
    }

    fn note_unwanted(&self, key: Key) {
        let mut unwanted = self.lock();
        debug_assert!(unwanted.keys.len() < unwanted.keys.capacity(), "room was made with the value");
        unwanted.keys.push(key);
        let task = unwanted.task.take();
        drop(unwanted);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// The next value that nobody wants; without one, the task is woken when there is.
    fn next_unwanted(&self, cx: &Context<'_>) -> Option<Key> {
        let mut unwanted = self.lock();
        let next = unwanted.keys.pop();
        let before = if next.is_none() { unwanted.task.replace(cx.waker().clone()) } else { None };
        drop(unwanted);
        drop(before);
        next
    }
}
