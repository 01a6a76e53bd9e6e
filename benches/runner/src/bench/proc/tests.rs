//! Differences between readings, and readings of this process.

use std::hint::black_box;

use super::{CpuTime, Memory, OpenFiles, Ticks, core_list, status_bytes};

#[test]
fn a_new_thread_counts_in_full_and_an_ended_one_not_at_all() {
    let at = |threads: &[(i32, u64)]| CpuTime { threads: threads.iter().copied().collect() };
    assert_eq!(at(&[(1, 150), (3, 7)]).since(&at(&[(1, 100), (2, 1000)])), 57);
    assert_eq!(at(&[(1, 100)]).since(&at(&[(1, 100)])), 0);
}

#[test]
fn the_time_of_this_process_grows_while_it_works() {
    let before = CpuTime::of(std::process::id()).unwrap();
    let mut sum = 0_u64;
    for n in 0..20_000_000_u64 {
        sum = black_box(sum.wrapping_mul(31) ^ n);
    }
    let spent = CpuTime::of(std::process::id()).unwrap().since(&before);
    assert!(spent > 100_000, "{spent} ns for {sum}");
}

#[test]
fn the_share_of_the_kernel_is_of_the_time_between() {
    let at = |user: u64, kernel: u64| Ticks { user, kernel };
    assert_eq!(at(110, 230).kernel_share_since(at(100, 200)), Some(0.75));
    assert_eq!(at(1, 1).kernel_share_since(at(1, 1)), None);
    assert!(Ticks::of(std::process::id()).is_ok());
}

#[test]
fn the_memory_of_this_process_is_known() {
    let memory = Memory::of(std::process::id()).unwrap();
    assert!(memory.anonymous_bytes > 4096 && memory.rss_bytes > memory.anonymous_bytes, "{memory:?}");
    assert!(memory.peak_rss_bytes > 4096 && memory.pss_bytes <= memory.rss_bytes, "{memory:?}");
    assert!(status_bytes(std::process::id(), |status| status.rssanon).unwrap() > 4096);
}

#[test]
fn the_soft_limit_of_files_is_at_most_the_hard_one() {
    let now = OpenFiles::now().unwrap();
    assert!(now.soft >= 3 && now.soft <= now.hard);
}

#[test]
fn lists_of_cores_have_ranges() {
    assert_eq!(core_list("\t0-2,5\n"), Some(vec![0, 1, 2, 5]));
    assert_eq!(core_list("7"), Some(vec![7]));
    assert_eq!(core_list(""), None);
    assert_eq!(core_list("0-x"), None);
}
