//! Random scripts against a model. After every operation:
//!
//! * the polls since the last one are those of the model, in its order;
//! * every handle says whether its task has ended, and gives the result that the model expects, once;
//! * joiners were woken as often as the model says;
//! * `len` and `has_ready` are the model's;
//! * futures and outputs alive are the model's.
//!
//! At the end everything is dropped: each future and each output was dropped exactly once, and no cell is left.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;

use super::super::{JoinError, JoinHandle, Spare, Started};
use super::rig::{Rig, Wakes};

/// What a future does when it is polled next. Without one it stays pending.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Keep,
    WakeSelf,
    WakeSelfElsewhere,
    LeaveWaker,
    AbortSelf,
    DropOwnHandle,
    Ready,
    WakeSelfAndReady,
    LeaveWakerAndReady,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Spawn { fragile: bool },
    Start { act: Act, fragile: bool },
    DropSpare,
    Plan { task: usize, act: Act },
    Wake { task: usize, elsewhere: bool, by_value: bool },
    CloneWaker { task: usize, elsewhere: bool },
    DropWaker { task: usize, elsewhere: bool },
    Run { polls_max: usize },
    Join { task: usize },
    Abort { task: usize },
    Detach { task: usize },
    Close,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Keep),
        3 => Just(Act::WakeSelf),
        1 => Just(Act::WakeSelfElsewhere),
        5 => Just(Act::LeaveWaker),
        1 => Just(Act::AbortSelf),
        1 => Just(Act::DropOwnHandle),
        4 => Just(Act::Ready),
        2 => Just(Act::WakeSelfAndReady),
        2 => Just(Act::LeaveWakerAndReady),
        2 => Just(Act::Panic),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let task = || 0..12_usize;
    prop_oneof![
        4 => prop::bool::weighted(0.2).prop_map(|fragile| Op::Spawn { fragile }),
        3 => (act(), prop::bool::weighted(0.2)).prop_map(|(act, fragile)| Op::Start { act, fragile }),
        1 => Just(Op::DropSpare),
        8 => (task(), act()).prop_map(|(task, act)| Op::Plan { task, act }),
        6 => (task(), prop::bool::weighted(0.4), any::<bool>()).prop_map(|(task, elsewhere, by_value)| Op::Wake { task, elsewhere, by_value }),
        1 => (task(), any::<bool>()).prop_map(|(task, elsewhere)| Op::CloneWaker { task, elsewhere }),
        2 => (task(), any::<bool>()).prop_map(|(task, elsewhere)| Op::DropWaker { task, elsewhere }),
        6 => (0..6_usize).prop_map(|polls_max| Op::Run { polls_max }),
        4 => task().prop_map(|task| Op::Join { task }),
        2 => task().prop_map(|task| Op::Abort { task }),
        2 => task().prop_map(|task| Op::Detach { task }),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { Op::Close } else { Op::Run { polls_max: 9 } }),
    ]
}

/// What the futures of a script share with its driver.
#[derive(Default)]
struct World {
    polls: RefCell<Vec<usize>>,
    futures_dropped: RefCell<Vec<usize>>,
    outputs_made: RefCell<Vec<usize>>,
    outputs_dropped: RefCell<Vec<usize>>,
    plans: RefCell<Vec<VecDeque<Act>>>,
    wakers: RefCell<Vec<Vec<Waker>>>,
    handles: RefCell<Vec<Option<JoinHandle<Output>>>>,
}

struct Output(usize, Rc<World>);

impl Drop for Output {
    fn drop(&mut self) {
        self.1.outputs_dropped.borrow_mut().push(self.0);
    }
}

/// Follows its plan.
struct Script {
    task: usize,
    /// Its drop panics.
    fragile: bool,
    world: Rc<World>,
}

impl Script {
    fn output(&self) -> Output {
        self.world.outputs_made.borrow_mut().push(self.task);
        Output(self.task, Rc::clone(&self.world))
    }

    fn leave(&self, waker: &Waker) {
        self.world.wakers.borrow_mut()[self.task].push(waker.clone());
    }
}

impl Future for Script {
    type Output = Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        self.world.polls.borrow_mut().push(self.task);
        let act = self.world.plans.borrow_mut()[self.task].pop_front().unwrap_or(Act::Keep);
        match act {
            Act::Keep => {}
            Act::WakeSelf => cx.waker().wake_by_ref(),
            Act::WakeSelfElsewhere => elsewhere(cx.waker(), Waker::wake_by_ref),
            Act::LeaveWaker => self.leave(cx.waker()),
            Act::AbortSelf => {
                if let Some(handle) = &self.world.handles.borrow()[self.task] {
                    handle.abort();
                }
            }
            Act::DropOwnHandle => {
                let handle = self.world.handles.borrow_mut()[self.task].take();
                drop(handle);
            }
            Act::Ready => return Poll::Ready(self.output()),
            Act::WakeSelfAndReady => {
                cx.waker().wake_by_ref();
                return Poll::Ready(self.output());
            }
            Act::LeaveWakerAndReady => {
                self.leave(cx.waker());
                return Poll::Ready(self.output());
            }
            Act::Panic => std::panic::panic_any(self.task),
        }
        Poll::Pending
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.world.futures_dropped.borrow_mut().push(self.task);
        if self.fragile {
            std::panic::panic_any("fragile");
        }
    }
}

fn elsewhere<T: Send>(value: T, call: impl FnOnce(T) + Send) {
    thread::scope(|scope| {
        scope.spawn(move || call(value));
    });
}

/// What the model knows of a task.
#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Live,
    /// An output or a panic that the handle can still take.
    Ready,
    Panicked,
    Cancelled,
    /// The result is gone.
    Over,
}

#[derive(Debug)]
struct ModelTask {
    expected: Expected,
    plan: VecDeque<Act>,
    handle: bool,
    queued: Queued,
    on_stack: bool,
    joiner: bool,
    joiner_woken: usize,
    wakers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Queued {
    Out,
    Ready,
    Notified,
}

/// A naive executor.
#[derive(Default)]
struct Model {
    tasks: Vec<ModelTask>,
    ready: VecDeque<usize>,
    stack: Vec<usize>,
    polls: Vec<usize>,
    futures: usize,
    outputs: usize,
    closed: bool,
}

impl Model {
    fn add(&mut self) -> usize {
        self.futures += 1;
        self.tasks.push(ModelTask {
            expected: Expected::Live,
            plan: VecDeque::new(),
            handle: false,
            queued: Queued::Out,
            on_stack: false,
            joiner: false,
            joiner_woken: 0,
            wakers: 0,
        });
        self.tasks.len() - 1
    }

    fn wake(&mut self, task: usize) {
        let state = &mut self.tasks[task];
        if state.expected == Expected::Live && state.queued == Queued::Out {
            state.queued = Queued::Ready;
            self.ready.push_back(task);
        }
    }

    fn wake_elsewhere(&mut self, task: usize) {
        let state = &mut self.tasks[task];
        if state.expected == Expected::Live && !state.on_stack && state.queued != Queued::Notified && !self.closed {
            state.on_stack = true;
            self.stack.push(task);
        }
    }

    fn receive(&mut self) {
        for task in core::mem::take(&mut self.stack) {
            let state = &mut self.tasks[task];
            state.on_stack = false;
            if state.expected != Expected::Live {
                continue;
            }
            if state.queued == Queued::Out {
                self.ready.push_back(task);
            }
            state.queued = Queued::Notified;
        }
    }

    fn run(&mut self, polls_max: usize) {
        self.receive();
        let mut polls = 0;
        while polls < polls_max {
            let Some(task) = self.ready.pop_front() else { break };
            self.tasks[task].queued = Queued::Out;
            if self.tasks[task].expected == Expected::Live {
                polls += 1;
                self.poll(task);
            }
        }
    }

    fn poll(&mut self, task: usize) {
        self.polls.push(task);
        match self.tasks[task].plan.pop_front().unwrap_or(Act::Keep) {
            Act::Keep => {}
            Act::WakeSelf => self.wake(task),
            Act::WakeSelfElsewhere => self.wake_elsewhere(task),
            Act::LeaveWaker => self.tasks[task].wakers += 1,
            Act::AbortSelf => {
                if self.tasks[task].handle {
                    self.finish(task, Expected::Cancelled);
                }
            }
            Act::DropOwnHandle => self.detach(task),
            Act::Ready => self.complete(task),
            Act::WakeSelfAndReady => {
                self.wake(task);
                self.complete(task);
            }
            Act::LeaveWakerAndReady => {
                self.tasks[task].wakers += 1;
                self.complete(task);
            }
            Act::Panic => self.finish(task, Expected::Panicked),
        }
    }

    fn complete(&mut self, task: usize) {
        self.outputs += 1;
        self.finish(task, Expected::Ready);
    }

    fn finish(&mut self, task: usize, end: Expected) {
        self.futures -= 1;
        let state = &mut self.tasks[task];
        state.expected = end;
        if core::mem::take(&mut state.joiner) {
            state.joiner_woken += 1;
        }
        if !state.handle {
            self.take(task);
        }
    }

    fn take(&mut self, task: usize) -> Expected {
        let end = core::mem::replace(&mut self.tasks[task].expected, Expected::Over);
        self.outputs -= usize::from(end == Expected::Ready);
        end
    }

    fn detach(&mut self, task: usize) {
        let state = &mut self.tasks[task];
        state.handle = false;
        state.joiner = false;
        if state.expected != Expected::Live {
            self.take(task);
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.receive();
        for task in 0..self.tasks.len() {
            if self.tasks[task].expected == Expected::Live {
                self.finish(task, Expected::Cancelled);
            }
        }
        self.clear_ready();
    }

    /// A new task in the cell of one that was ready at once. If that one woke itself, its place in the list is the new
    /// one's.
    fn inherit(&mut self, before: usize, task: usize) {
        let queued = core::mem::replace(&mut self.tasks[before].queued, Queued::Out);
        self.tasks[task].queued = queued;
        for entry in &mut self.ready {
            if *entry == before {
                *entry = task;
            }
        }
    }

    /// Nothing is in the list any more.
    fn clear_ready(&mut self) {
        for task in core::mem::take(&mut self.ready) {
            self.tasks[task].queued = Queued::Out;
        }
    }

    fn live(&self) -> usize {
        self.tasks.iter().filter(|task| task.expected == Expected::Live).count()
    }
}

/// The tasks, the model, and what the script holds.
struct Driver {
    rig: Rig,
    world: Rc<World>,
    model: Model,
    /// And the task that was in it before.
    spare: Option<(Spare<Script>, Option<usize>)>,
    joiners: Vec<(Arc<Wakes>, Waker)>,
}

impl Driver {
    fn new() -> Self {
        Self { rig: Rig::new(), world: Rc::default(), model: Model::default(), spare: None, joiners: Vec::new() }
    }

    /// A task in the model and its places in the world.
    fn add(&mut self, plan: Option<Act>) -> usize {
        let task = self.model.add();
        self.model.tasks[task].plan.extend(plan);
        self.world.plans.borrow_mut().push(plan.into_iter().collect());
        self.world.wakers.borrow_mut().push(Vec::new());
        self.world.handles.borrow_mut().push(None);
        self.joiners.push(Wakes::new());
        task
    }

    fn script(&self, task: usize, fragile: bool) -> Script {
        Script { task, fragile, world: Rc::clone(&self.world) }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Spawn { fragile } => self.spawn(fragile),
            Op::Start { act, fragile } => self.start(act, fragile),
            Op::DropSpare => self.spare = None,
            Op::Run { polls_max } => {
                self.rig.tasks.run(polls_max);
                self.model.run(polls_max);
            }
            Op::Close => {
                self.rig.tasks.close();
                self.model.close();
            }
            Op::Plan { task, .. }
            | Op::Wake { task, .. }
            | Op::CloneWaker { task, .. }
            | Op::DropWaker { task, .. }
            | Op::Join { task }
            | Op::Abort { task }
            | Op::Detach { task } => {
                if let Some(count) = self.model.tasks.len().checked_sub(1) {
                    // The latest tasks are the interesting ones.
                    self.apply_to(count - task.min(count), op);
                }
            }
        }
        self.check();
    }

    fn spawn(&mut self, fragile: bool) {
        let task = self.add(None);
        let handle = self.rig.spawn(self.script(task, fragile));
        self.world.handles.borrow_mut()[task] = Some(handle);
        self.model.tasks[task].handle = true;
        match self.model.closed {
            true => self.model.finish(task, Expected::Cancelled),
            false => self.model.wake(task),
        }
    }

    fn start(&mut self, act: Act, fragile: bool) {
        let task = self.add(Some(act));
        let (cell, before) =
            self.spare.take().unwrap_or_else(|| (self.rig.tasks.spare().expect("there is room"), None));
        if let Some(before) = before {
            self.model.inherit(before, task);
        }
        let script = self.script(task, fragile);
        let started = self.rig.tasks.start(cell, || script);
        // The model polls it as an ordinary task without a handle, then gives it one.
        self.model.poll(task);
        let state = &self.model.tasks[task];
        let before = (state.wakers == 0 && !state.on_stack).then_some(task);
        match (started, &state.expected) {
            (Started::Ready(output, cell), Expected::Over) => {
                assert_eq!(output.0, task);
                self.spare = Some((cell, before));
            }
            (Started::Panicked(payload, cell), Expected::Over) => {
                assert_eq!(payload.downcast_ref(), Some(&task));
                self.spare = cell.map(|cell| (cell, before));
            }
            (Started::Pending(handle), Expected::Live) => {
                self.world.handles.borrow_mut()[task] = Some(handle);
                self.model.tasks[task].handle = true;
                if self.model.closed {
                    self.model.finish(task, Expected::Cancelled);
                    self.model.clear_ready();
                }
            }
            (started, expected) => panic!("{started:?} where {expected:?} was expected"),
        }
    }

    fn apply_to(&mut self, task: usize, op: Op) {
        let world = Rc::clone(&self.world);
        let waker = || world.wakers.borrow_mut()[task].pop();
        match op {
            Op::Plan { act, .. } => {
                self.model.tasks[task].plan.push_back(act);
                world.plans.borrow_mut()[task].push_back(act);
            }
            Op::Wake { elsewhere: is_elsewhere, by_value, .. } => {
                let Some(waker) = waker() else { return };
                let wake = move |waker: Waker| if by_value { waker.wake() } else { waker.wake_by_ref() };
                self.model.tasks[task].wakers -= 1;
                if is_elsewhere {
                    elsewhere(waker, wake);
                    self.model.wake_elsewhere(task);
                } else {
                    wake(waker);
                    self.model.wake(task);
                }
            }
            Op::CloneWaker { elsewhere: is_elsewhere, .. } => {
                let Some(waker) = waker() else { return };
                let copy = Cell::new(None);
                if is_elsewhere {
                    let copied = thread::scope(|scope| scope.spawn(|| waker.clone()).join());
                    copy.set(copied.ok());
                } else {
                    copy.set(Some(waker.clone()));
                }
                self.model.tasks[task].wakers += 1;
                world.wakers.borrow_mut()[task].extend([waker, copy.take().expect("a copy")]);
            }
            Op::DropWaker { elsewhere: is_elsewhere, .. } => {
                let Some(waker) = waker() else { return };
                self.model.tasks[task].wakers -= 1;
                if is_elsewhere { elsewhere(waker, drop) } else { drop(waker) }
            }
            Op::Join { .. } => self.join(task),
            Op::Abort { .. } => {
                let handles = world.handles.borrow();
                let Some(handle) = &handles[task] else { return };
                handle.abort();
                if self.model.tasks[task].expected == Expected::Live {
                    self.model.finish(task, Expected::Cancelled);
                }
            }
            Op::Detach { .. } => {
                let handle = world.handles.borrow_mut()[task].take();
                if handle.is_some() {
                    drop(handle);
                    self.model.detach(task);
                }
            }
            Op::Spawn { .. } | Op::Start { .. } | Op::DropSpare | Op::Run { .. } | Op::Close => {
                unreachable!("not of a task")
            }
        }
    }

    fn join(&mut self, task: usize) {
        let Some(mut handle) = self.world.handles.borrow_mut()[task].take() else { return };
        let polled = pin!(&mut handle).poll(&mut Context::from_waker(&self.joiners[task].1));
        if polled.is_pending() {
            assert_eq!(self.model.tasks[task].expected, Expected::Live);
            self.model.tasks[task].joiner = true;
            self.world.handles.borrow_mut()[task] = Some(handle);
            return;
        }
        self.model.tasks[task].handle = false;
        match (polled, self.model.take(task)) {
            (Poll::Ready(Ok(output)), Expected::Ready) => assert_eq!(output.0, task),
            (Poll::Ready(Err(JoinError::Panicked(payload))), Expected::Panicked) => {
                assert_eq!(payload.downcast_ref(), Some(&task))
            }
            (Poll::Ready(Err(JoinError::Cancelled)), Expected::Cancelled) => {}
            (polled, expected) => panic!("{:?} where {expected:?} was expected", polled.map_ok(|output| output.0)),
        }
    }

    fn check(&self) {
        let (world, model) = (&self.world, &self.model);
        assert_eq!(*world.polls.borrow(), model.polls);
        assert_eq!(self.rig.tasks.polls_total(), model.polls.len() as u64);
        assert_eq!(self.rig.tasks.len(), model.live());
        assert_eq!(model.tasks.len() - world.futures_dropped.borrow().len(), model.futures);
        assert_eq!(world.outputs_made.borrow().len() - world.outputs_dropped.borrow().len(), model.outputs);
        for (task, expected) in model.tasks.iter().enumerate() {
            assert_eq!(world.wakers.borrow()[task].len(), expected.wakers);
            assert_eq!(self.joiners[task].0.count(), expected.joiner_woken);
            let handles = world.handles.borrow();
            assert_eq!(handles[task].is_some(), expected.handle);
            if let Some(handle) = &handles[task] {
                assert_eq!(handle.is_finished(), expected.expected != Expected::Live);
            }
        }
        if model
            .tasks
            .iter()
            .any(|task| task.expected == Expected::Live && (task.queued != Queued::Out || task.on_stack))
        {
            assert!(self.rig.tasks.has_ready() && !self.rig.tasks.prepare_sleep(), "something is ready");
        }
    }

    /// Drops the worker, the handles and the wakers, the latter two in either order.
    fn end(self, wakers_last: bool) {
        let Self { rig, world, spare, .. } = self;
        let Rig { tasks, pool, .. } = rig;
        drop(tasks);
        let wakers = world.wakers.take();
        if wakers_last {
            drop((world.handles.take(), spare));
            elsewhere(wakers, drop);
        } else {
            drop((wakers, world.handles.take(), spare));
        }
        assert_eq!(super::rig::cell_bytes(&pool), 0, "a cell is leaked");
        let once = |tasks: &RefCell<Vec<usize>>| {
            let mut tasks = tasks.take();
            tasks.sort_unstable();
            tasks
        };
        let all: Vec<usize> = (0..world.plans.borrow().len()).collect();
        assert_eq!(once(&world.futures_dropped), all);
        assert_eq!(once(&world.outputs_dropped), once(&world.outputs_made));
    }
}

/// Keeps the panics of the scripts off the output.
fn quietly(call: impl FnOnce()) {
    use std::sync::Once;
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let ours = info.payload().is::<usize>() || info.payload().downcast_ref() == Some(&"fragile");
            if !ours {
                before(info);
            }
        }));
    });
    call();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { ProptestConfig::default().cases }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scripts(ops in prop::collection::vec(op(), 1..120), wakers_last in any::<bool>()) {
        quietly(|| {
            let mut driver = Driver::new();
            for op in ops {
                driver.apply(op);
            }
            driver.end(wakers_last);
        });
    }
}
