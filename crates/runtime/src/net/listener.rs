//! A listening socket.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;
use std::panic::resume_unwind;
use std::rc::Rc;

use plimsoll_reactor::{Address, Errno, Fd, FdRef, ListenOptions, Op, Payload, SharedListener, UnixAddress};
use plimsoll_slab::Key;

use super::address::{ListenAddress, SocketAddress};
use super::stream::{SocketStream, reserve};
use crate::task::{Spare, Started};
use crate::worker::Worker;
use crate::{AbortOnDrop, ConfigError, Error, JoinError, Result, signal, sleep, spawn, spawn_on, timeout, yield_now};

/// How long accepting pauses for want of descriptors or memory, if none becomes free before.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a pause looks whether a descriptor became free.
const PAUSE_STEP: Duration = Duration::from_millis(10);
/// Connections accepted in a row at most before other tasks have their turn.
const AT_ONCE_MAX: u32 = 256;
/// How long connections may run on after the stop.
const DRAIN: Duration = Duration::from_secs(10);

/// A listener of one worker: [`TcpListener`](super::TcpListener), [`UnixListener`](super::UnixListener), or
/// [`Listener`](super::Listener) for both.
///
/// In a runtime of several workers a TCP listener is always bound with `SO_REUSEPORT`, so that each worker can have its
/// own at the same address; an address that another process listens at is refused all the same. Listeners of other
/// workers at a Unix socket, or at a socket of another process, [share](Self::share) its queue.
///
/// A Unix socket's path is made by `bind`, with the permissions that the umask leaves. A socket that is there already,
/// and at which nobody listens any more, makes way. The file stays when the listener is closed.
pub struct SocketListener<A: SocketAddress> {
    worker: Rc<Worker>,
    /// Until it is dropped.
    fd: Option<Fd>,
    address: A,
    siblings: Siblings,
    accepting: RefCell<Accepting>,
    /// Connections accepted without a wait, one after the other.
    at_once: Cell<u32>,
}

/// The listener's accept. It belongs to the listener, not to the future that waits for it.
enum Accepting {
    Idle,
    Armed {
        waiter: Key,
        op: Key,
    },
    /// Accepted, but there was no room under the line for its slot.
    Held(Fd),
}

/// How listeners for other workers come to be.
#[derive(Clone, Copy)]
enum Siblings {
    /// Each is bound, with this backlog.
    Bound(u32),
    /// They have the same queue.
    Shared,
}

impl Siblings {
    /// Connections at most that wait to be accepted.
    fn queue_max(self) -> u64 {
        match self {
            Self::Bound(backlog) => backlog.into(),
            // It is somebody else's to know.
            Self::Shared => u16::MAX.into(),
        }
    }
}

/// What another worker needs for its listener.
enum Sibling<A> {
    Bound(A, ListenOptions),
    Shared(SharedListener),
}

impl<A: SocketAddress> Sibling<A> {
    fn listen(self) -> Result<SocketListener<A>> {
        match self {
            Self::Bound(address, options) => SocketListener::bind_at(address, options),
            Self::Shared(listener) => SocketListener::join(listener),
        }
    }
}

impl<A: SocketAddress> SocketListener<A> {
    /// Binds and listens with the default options.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: the address is in use, not permitted or not this host's; [`Error::Config`] when it is not an
    /// address.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn bind(address: impl TryInto<ListenAddress<A>>) -> Result<Self> {
        Self::bind_with(address, ListenOptions::default())
    }

    /// Binds and listens. Where there are several workers, their listeners can share the address, whatever `reuse_port`
    /// says.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    ///
    /// # Panics
    ///
    /// For a backlog of 0 or more than 65,535, and outside of a runtime.
    pub fn bind_with(address: impl TryInto<ListenAddress<A>>, options: ListenOptions) -> Result<Self> {
        let ListenAddress(address) = address.try_into().map_err(|_| ConfigError::Address { expected: A::EXPECTED })?;
        Self::bind_at(address, options)
    }

    fn bind_at(address: A, options: ListenOptions) -> Result<Self> {
        let worker = Worker::current();
        let options = ListenOptions { reuse_port: options.reuse_port || crate::workers() > 1, ..options };
        let fd = worker.driver.borrow_mut().listen(address.into(), &options)?;
        let is_bound = address.into().ip().is_some();
        Self::over(worker, fd, if is_bound { Siblings::Bound(options.backlog) } else { Siblings::Shared })
    }

    /// Listens at a socket that listens already: that of [`share`](Self::share), or one of another process.
    ///
    /// ```
    /// use std::os::fd::OwnedFd;
    /// use plimsoll_runtime::net::TcpListener;
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    /// let listener = TcpListener::join(OwnedFd::from(socket).into())?;
    /// assert_ne!(listener.local_addr().port(), 0);
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: it is not a stream socket that listens; [`Error::Config`]: it is one of another family.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn join(listener: SharedListener) -> Result<Self> {
        let worker = Worker::current();
        let fd = worker.driver.borrow_mut().join(listener)?;
        Self::over(worker, fd, Siblings::Shared)
    }

    /// Has listeners of other workers accept from this one's queue, as they do at a Unix socket. No connection is lost
    /// when a worker's listener is closed before the others: such as when this process hands its socket to the
    /// [next](crate::net::pass_on). From one queue, connections that come together mostly go to one worker, so each
    /// worker has a queue of its own unless this is asked for.
    #[must_use]
    pub fn share_queue(mut self) -> Self {
        self.siblings = Siblings::Shared;
        self
    }

    /// Another listener on the queue of this one, for another worker or another process: whoever accepts first gets a
    /// connection.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `fcntl(2)`.
    pub fn share(&self) -> Result<SharedListener> {
        Ok(self.worker.driver.borrow_mut().share(self.fd())?)
    }

    fn over(worker: Rc<Worker>, fd: Fd, siblings: Siblings) -> Result<Self> {
        worker.opened();
        let found = worker.driver.borrow().local_address(fd.at());
        match found.map(A::of) {
            Ok(Some(address)) => {
                let accepting = RefCell::new(Accepting::Idle);
                Ok(Self { worker, fd: Some(fd), address, siblings, accepting, at_once: Cell::new(0) })
            }
            other => {
                worker.close(fd);
                other?;
                Err(ConfigError::SocketFamily { expected: A::EXPECTED }.into())
            }
        }
    }

    /// Whether others accept from the same queue, perhaps in another process.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.siblings, Siblings::Shared)
    }

    /// The same listener, with addresses of either family.
    pub fn into_any(mut self) -> SocketListener<Address> {
        SocketListener {
            worker: Rc::clone(&self.worker),
            fd: self.fd.take(),
            address: self.address.into(),
            siblings: self.siblings,
            accepting: RefCell::new(self.accepting.replace(Accepting::Idle)),
            at_once: Cell::new(self.at_once.get()),
        }
    }

    fn sibling(&self) -> Result<Sibling<A>> {
        Ok(match self.siblings {
            Siblings::Bound(backlog) => {
                Sibling::Bound(self.address, ListenOptions { backlog, reuse_port: true, join: true })
            }
            Siblings::Shared => Sibling::Shared(self.share()?),
        })
    }

    /// The address it listens at; tells the port when 0 was asked for.
    pub fn local_addr(&self) -> A {
        self.address
    }

    pub(super) fn fd(&self) -> FdRef<'_> {
        self.fd.as_ref().expect("it is closed when it is dropped").at()
    }

    pub(super) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Accepts a connection when there is one *and* room under the line for its slot. Errors that pass (`ECONNABORTED`,
    /// `EMFILE`, `ENFILE`, `ENOMEM`, `ENOBUFS` and the like) are waited out: for want of descriptors until one is
    /// closed, 100 ms at most.
    ///
    /// Cancel safe: no connection is lost.
    ///
    /// # Errors
    ///
    /// [`Error::System`] for what does not pass.
    pub async fn accept(&self) -> Result<(SocketStream<A>, A)> {
        loop {
            if self.at_once.get() >= AT_ONCE_MAX {
                self.at_once.set(0);
                yield_now().await;
            }
            if reserve(&self.worker).is_err() {
                sleep(PAUSE_STEP).await;
                continue;
            }
            match poll_fn(|cx| self.poll_accept(cx)).await {
                Ok(fd) => match SocketStream::from_fd(&self.worker, fd) {
                    Ok(stream) => match stream.peer_addr() {
                        Ok(peer) => return Ok((stream, peer)),
                        // It was reset while it waited.
                        Err(_) => continue,
                    },
                    Err(fd) => {
                        self.accepting.replace(Accepting::Held(fd));
                        // The container has no room for what the kernel holds for it.
                        sleep(PAUSE_STEP).await;
                        continue;
                    }
                },
                Err(errno) if needs_pause(errno) => {
                    pause(&self.worker).await;
                    continue;
                }
                Err(errno) if errno.is_transient_accept() => continue,
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Whether a connection waits to be accepted, or was accepted and is not taken yet. Asks the kernel.
    fn is_awaited(&self) -> bool {
        let is_here = match *self.accepting.borrow() {
            Accepting::Idle => false,
            Accepting::Armed { waiter, .. } => self.worker.waiters.borrow().is_answered(waiter),
            Accepting::Held(_) => true,
        };
        is_here || self.worker.driver.borrow_mut().is_readable_now(self.fd())
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Fd, Errno>> {
        loop {
            let armed = match *self.accepting.borrow() {
                Accepting::Armed { waiter, .. } => Some(waiter),
                Accepting::Idle | Accepting::Held(_) => None,
            };
            if let Some(waiter) = armed {
                // It stays armed while the wakers' own code runs, which may panic.
                let Poll::Ready(completion) = self.worker.poll_answer(waiter, cx) else { return Poll::Pending };
                self.accepting.replace(Accepting::Idle);
                return Poll::Ready(match (completion.result, completion.payload) {
                    (Ok(_), Payload::Fd(fd)) => {
                        self.worker.opened();
                        Ok(fd)
                    }
                    (Err(errno), _) => Err(errno),
                    (Ok(_), other) => unreachable!("an accept brings a descriptor, not {other:?}"),
                });
            }
            match self.accepting.replace(Accepting::Idle) {
                Accepting::Held(fd) => return Poll::Ready(Ok(fd)),
                Accepting::Idle => {
                    let now = self.worker.driver.borrow_mut().accept_now(self.fd())?;
                    if let Some(fd) = now {
                        self.at_once.set(self.at_once.get() + 1);
                        self.worker.opened();
                        return Poll::Ready(Ok(fd));
                    }
                    let started = self.worker.start(Op::Accept { listener: self.fd() });
                    self.at_once.set(0);
                    let Ok((waiter, op)) = started else { return Poll::Ready(Err(Errno::NOBUFS)) };
                    self.accepting.replace(Accepting::Armed { waiter, op });
                }
                Accepting::Armed { .. } => unreachable!("asked above"),
            }
        }
    }

    /// Serves connections on every worker of the runtime with a task each, until the runtime is asked to stop; then
    /// those that run, and those that wait to be accepted, may finish, up to 10 s. A connection is accepted only when
    /// the cell of its task is reserved.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept), and as [`on_every_worker`](Self::on_every_worker).
    pub async fn serve<H, F, E>(self, handler: H) -> Result<()>
    where
        H: Fn(SocketStream<A>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<(), E>> + 'static,
        E: fmt::Display + 'static,
    {
        self.on_every_worker(move |listener| listener.serve_here(handler.clone())).await
    }

    /// Runs `serve` on every worker of the runtime, with this listener here and with one at the same address on each of
    /// the others, until all of them have ended or one has failed.
    ///
    /// A failure, or dropping the future, ends what runs on this worker, and not the others: they run on, until the
    /// runtime is asked to stop.
    ///
    /// ```
    /// use plimsoll_runtime::{Error, Spawner, net::TcpListener};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(2).build()?.block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// // Nobody comes here: it is asked to stop before it begins.
    /// Spawner::current().stop();
    /// listener.on_every_worker(|here| here.serve_here(|_stream| async { Ok::<(), Error>(()) })).await
    /// # })?; Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first of any worker: what `serve` fails with, as [`bind`](Self::bind) for the other workers' listeners, and
    /// as [`spawn_on`](crate::spawn_on).
    pub async fn on_every_worker<S, F>(self, serve: S) -> Result<()>
    where
        S: Fn(Self) -> F + Clone + Send + 'static,
        F: Future<Output = Result<()>> + 'static,
    {
        let mut serving: Vec<Serving> = Vec::new();
        for worker in (0..crate::workers()).filter(|&worker| worker != crate::worker_index()) {
            let (sibling, serve) = (self.sibling()?, serve.clone());
            let there = spawn_on(worker, move || async move { serve(sibling.listen()?).await })?;
            serving.push(Box::pin(async move { there.await? }));
        }
        // In a task of its own, too: what waits for it here is asked when it has ended, and not in each of its turns.
        serving.push(Box::pin(in_place(spawn(serve(self))?.abort_on_drop())));
        first_error(serving).await
    }

    /// As [`serve`](Self::serve), on this worker alone; the handler need not be `Send`.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub async fn serve_here<H, F, E>(self, handler: H) -> Result<()>
    where
        H: Fn(SocketStream<A>) -> F + 'static,
        F: Future<Output = Result<(), E>> + 'static,
        E: fmt::Display + 'static,
    {
        let live = Rc::new(Cell::new(0_usize));
        let handler = Rc::new(handler);
        let mut spare = None;
        while !signal::is_stopping() {
            let Some(cell) = spare.take().or_else(|| self.worker.tasks.spare().ok()) else {
                until_stopped(sleep(PAUSE_STEP)).await;
                continue;
            };
            let Some(accepted) = until_stopped(self.accept()).await else { break };
            let (stream, _peer) = accepted?;
            spare = start_one(&self.worker, cell, || serve_one(Rc::clone(&handler), stream, Live::one(&live)));
        }
        let drained_by = crate::now() + DRAIN;
        // What the kernel holds already is served as well: closing the listener would reset it. An accept in flight is
        // answered by the next turn.
        sleep(PAUSE_STEP).await;
        // No more than waited when the stop came: others may arrive for ever.
        let mut left = self.siblings.queue_max() + 1;
        while left > 0 && crate::now() < drained_by && self.is_awaited() {
            let Some(cell) = spare.take().or_else(|| self.worker.tasks.spare().ok()) else {
                sleep(PAUSE_STEP).await;
                continue;
            };
            match timeout(PAUSE_STEP, self.accept()).await {
                Ok(Ok((stream, _peer))) => {
                    left -= 1;
                    spare = start_one(&self.worker, cell, || serve_one(Rc::clone(&handler), stream, Live::one(&live)));
                }
                Ok(Err(_)) => break,
                // It waits for room, or what had waited is gone.
                Err(_) => spare = Some(cell),
            }
        }
        drop(self);
        while live.get() > 0 && crate::now() < drained_by {
            sleep(PAUSE_STEP).await;
        }
        Ok(())
    }
}

/// Waits until a worker serves no more.
type Serving = Pin<Box<dyn Future<Output = Result<()>>>>;

/// A panic of a task goes on here, as if it had been awaited in place.
async fn in_place(task: AbortOnDrop<Result<()>>) -> Result<()> {
    match task.await {
        Ok(ended) => ended,
        Err(JoinError::Panicked(payload)) => resume_unwind(payload),
        Err(JoinError::Cancelled) => Err(Error::ShuttingDown),
    }
}

/// Waits for all of them, or for the first that fails.
async fn first_error(mut serving: Vec<Serving>) -> Result<()> {
    poll_fn(move |cx| {
        let mut failed = None;
        serving.retain_mut(|here| match here.as_mut().poll(cx) {
            Poll::Ready(ended) => {
                failed = failed.take().or(ended.err());
                false
            }
            Poll::Pending => true,
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if serving.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// Begins a connection's task in a cell that was reserved. The cell, if it is free again.
fn start_one<F>(worker: &Worker, cell: Spare<F>, make: impl FnOnce() -> F) -> Option<Spare<F>>
where
    F: Future<Output = ()> + 'static,
{
    match worker.tasks.start(cell, make) {
        Started::Ready((), spare) => Some(spare),
        Started::Panicked(_, spare) => spare,
        Started::ReadyNoSpare(()) | Started::Pending(_) => None,
    }
}

async fn serve_one<A, H, F, E>(handler: Rc<H>, stream: SocketStream<A>, _live: Live)
where
    A: SocketAddress,
    H: Fn(SocketStream<A>) -> F,
    F: Future<Output = Result<(), E>>,
    E: fmt::Display,
{
    if let Err(error) = handler(stream).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Counts the connections that run.
struct Live(Rc<Cell<usize>>);

impl Live {
    fn one(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The future's output, or `None` once the runtime has been asked to stop.
async fn until_stopped<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut stopped = pin!(signal::stopped());
    poll_fn(|cx| {
        if stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// Whether accepting should wait until something becomes free.
pub(super) fn needs_pause(errno: Errno) -> bool {
    matches!(errno.0, libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
}

/// Waits until a descriptor of this worker was closed, [`PAUSE`] at most.
async fn pause(worker: &Worker) {
    let closed = worker.fds_closed();
    let until = worker.now() + PAUSE;
    while worker.fds_closed() == closed && worker.now() < until {
        sleep(PAUSE_STEP).await;
    }
}

impl From<SocketListener<SocketAddr>> for SocketListener<Address> {
    fn from(listener: SocketListener<SocketAddr>) -> Self {
        listener.into_any()
    }
}

impl From<SocketListener<UnixAddress>> for SocketListener<Address> {
    fn from(listener: SocketListener<UnixAddress>) -> Self {
        listener.into_any()
    }
}

impl<A: SocketAddress> Drop for SocketListener<A> {
    fn drop(&mut self) {
        match self.accepting.replace(Accepting::Idle) {
            Accepting::Idle => {}
            Accepting::Armed { waiter, op } => self.worker.give_up(waiter, op),
            Accepting::Held(fd) => self.worker.close(fd),
        }
        if let Some(fd) = self.fd.take() {
            self.worker.close(fd);
        }
    }
}

impl<A: SocketAddress> fmt::Debug for SocketListener<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(A::LISTENER).field("address", &self.address).finish()
    }
}
