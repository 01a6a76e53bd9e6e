//! One suite over [`Driver`](plimsoll_reactor::Driver), for every driver there is: io_uring where the system has it,
//! mio, and the simulation.
//!
//! Client and server are operations of the same driver, so that a case is the same program everywhere. Before and after
//! each case the bench counts operations in flight, open descriptors and live leases: a case that leaves something
//! behind fails.
//!
//! The suite is a program of its own because it counts the descriptors of the process; its tests take turns for the
//! same reason.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "each test names the cases it runs")]

mod bench;
mod cancels;
mod crowds;
mod drops;
mod ends;
mod files;
mod hostile;
mod listeners;
mod orphans;
mod polls;
mod streams;
mod unix;
mod waits;

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bench::{Bench, Family};
use plimsoll_reactor::sim::SimConfig;
use plimsoll_reactor::{DriverChoice, Error, select};

/// A case and the name that is printed for it.
struct Case {
    name: &'static str,
    run: fn(&mut Bench),
}

/// A table of cases.
macro_rules! cases {
    ($cases:ident: $($module:ident: $($case:ident),+;)+) => {
        const $cases: &[Case] = &[$($(Case { name: concat!(stringify!($module), "::", stringify!($case)), run: $module::$case },)+)+];
    };
}

cases! {
    CASES:
    streams: echo, answers_without_an_operation, receives_into_several_leases, reads_into_a_buffer, peeks, addresses, large_transfer, receive_before_data, receive_after_data, receive_into, receive_limit,
        shared_bytes;
    ends: end_of_file, end_behind_data, half_close, send_after_reset, gone_after_both_halves,
        end_in_the_middle_of_a_full_receive;
    listeners: connection_refused, accept_many_at_once, address_in_use, several_accepts;
    polls: poll_readable, poll_writable, poll_peer_closed, poll_listener, poll_after_a_partial_receive,
        two_polls_on_one_descriptor;
    cancels: cancel_accept, cancel_receives, cancel_send, cancel_polls, cancel_file_operations,
        cancel_twice, cancel_loses_no_bytes;
    orphans: orphan_at_once, orphan_when_ready, orphan_file_operations, disown;
    drops: drop_in_flight;
    crowds: interleaved_receives, descriptor_numbers_reused, lent_buffers_are_missed;
    waits: doorbell_ends_a_wait, doorbell_rung_before, deadline_passes, no_wait;
    files: round_trip, paths_end, errors, large_file, short_reads_at_the_end, many_at_once, close_waits_for_writes;
}

cases! {
    TCP:
    streams: socket_options;
    ends: reset_seen_by_receive;
    listeners: joined_listeners, refused_connects;
    cancels: cancel_connect;
    orphans: orphan_while_waiting;
}

cases! {
    UNIX:
    unix: options_of_tcp, paths, stale_path, abstract_name, full_queue, shared_listener, inherited_listener;
}

cases! {
    HOSTILE:
    hostile: urgent_byte_under_sends, urgent_byte_under_receives, bytes_behind_an_urgent_byte, urgent_byte_under_calls_at_once,
        zero_window, resets, reset_before_the_accept, half_open, simultaneous_close, tiny_segments;
}

/// Runs cases, each on a fresh bench of the same making, and on a thread of its own: the worker threads that the kernel
/// has made for it end with it.
fn run_all(_turn: &Turn, cases: &[&[Case]], make: impl Fn() -> Bench + Sync) {
    let only = std::env::var("PLIMSOLL_CASE").ok();
    let cases = cases.iter().copied().flatten();
    for case in cases.filter(|case| only.as_ref().is_none_or(|only| case.name.contains(only.as_str()))) {
        let run = || {
            let mut bench = make();
            println!("{} {:?}: {}", bench.driver.kind(), bench.family, case.name);
            bench.warm_up();
            let before = bench.tally();
            (case.run)(&mut bench);
            bench.assert_settled(&before);
        };
        std::thread::scope(|scope| {
            if let Err(panic) = scope.spawn(run).join() {
                println!("failed: {}", case.name);
                std::panic::resume_unwind(panic);
            }
        });
    }
    assert_no_kernel_thread_is_left();
}

/// Those of threads that have ended end soon.
fn assert_no_kernel_thread_is_left() {
    let names = || -> Vec<String> {
        let threads = std::fs::read_dir("/proc/self/task").expect("proc is mounted").flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.starts_with("iou-wrk")).collect()
    };
    for _ in 0..2_000 {
        if names().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("worker threads of the kernel are left: {:?}", names());
}

/// Held by the test that has the process for itself.
type Turn = MutexGuard<'static, ()>;

fn turn() -> Turn {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn uring() {
    let turn = turn();
    match select(DriverChoice::Uring) {
        Ok(selected) => {
            run_all(&turn, &[CASES, TCP, HOSTILE], || Bench::real(&selected, Family::Tcp));
            run_all(&turn, &[CASES, UNIX], || Bench::real(&selected, Family::Unix));
        }
        Err(Error::DriverUnavailable { step, errno, .. }) => {
            println!("uring: skipped, not available here ({step}: {errno})")
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn mio() {
    let turn = turn();
    let selected = select(DriverChoice::Mio).expect("always there");
    run_all(&turn, &[CASES, TCP, HOSTILE], || Bench::real(&selected, Family::Tcp));
    run_all(&turn, &[CASES, UNIX], || Bench::real(&selected, Family::Unix));
}

#[test]
fn sim() {
    let turn = turn();
    for seed in 0..3 {
        run_all(&turn, &[CASES, TCP], || Bench::simulated(SimConfig::new(seed), Family::Tcp));
        run_all(&turn, &[CASES, UNIX], || Bench::simulated(SimConfig::new(seed), Family::Unix));
    }
}
