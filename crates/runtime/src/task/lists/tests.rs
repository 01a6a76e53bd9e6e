//! Properties: what is first in goes first out, and a task's links say that it is in a list for as long as it is.
#![forbid(unsafe_code)]

use std::sync::Arc;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};

use super::super::cell::{Task, Vacant};
use super::super::remote::CoreRef;
use super::*;

/// A cell is given back when nothing holds it, so one that says that it is in no list must be in none.
#[test]
fn links_are_clear_when_a_task_is_in_no_list() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(16)), PoolConfig::default()).expect("address space is plenty");
    let core = CoreRef::new(Arc::new(|| {}));
    let joins = [(); 3].map(|()| Vacant::new(&pool, &core).expect("there is room").fill(core::future::pending::<()>()));
    let tasks: Vec<Task> = core::iter::from_fn(|| core.live.pop()).collect();
    let clear = || tasks.iter().map(|task| task.links().are_clear()).collect::<Vec<_>>();
    assert_eq!(clear(), [false, false, true], "the first two of the ready ones have one behind them");
    let ready: Vec<Task> = core::iter::from_fn(|| core.ready.pop()).collect();
    assert_eq!(clear(), [true; 3]);
    assert!(ready.iter().zip(&tasks).all(|(ready, task)| ready.is(task)), "both lists have the order of spawning");

    tasks.iter().for_each(|task| core.live.push(task));
    assert_eq!((core.live.len(), clear()), (3, vec![false; 3]));
    core.live.remove(&tasks[1]);
    assert_eq!((core.live.len(), clear()), (2, vec![false, true, false]));
    core.live.remove(&tasks[1]);
    assert_eq!(core.live.len(), 2, "it was not in the list any more");
    core.live.remove(&tasks[0]);
    assert_eq!((core.live.len(), clear()), (1, vec![true; 3]), "alone it needs no link");
    core.live.remove(&tasks[2]);
    assert_eq!(core.live.len(), 0);

    ready.iter().for_each(Task::leave_queue);
    tasks.iter().for_each(Task::cancel);
    drop((joins, tasks, ready));
}
