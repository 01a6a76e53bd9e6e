//! The texts of `/proc`, and the live ones of this process.

use std::hint::black_box;

use super::{CpuTime, Memory, OpenFiles, Ticks, core_list, kib, on_cpu_ns};

#[test]
fn schedstat_counts_time_on_a_core_only() {
    assert_eq!(on_cpu_ns("1845670012 99 4711\n"), Some(1_845_670_012));
    assert_eq!(on_cpu_ns(""), None);
    assert_eq!(on_cpu_ns("soon 1 2"), None);
}

#[test]
fn a_new_thread_counts_in_full_and_an_ended_one_not_at_all() {
    let at = |threads: &[(u32, u64)]| CpuTime { threads: threads.iter().copied().collect() };
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
    let at = |user: u64, kernel: u64| {
        let stat = format!("7 (a) b) S 1 7 7 0 -1 4194304 99 0 0 0 {user} {kernel} 5 6 20 0 1 0 100 1 1");
        Ticks::parse(&stat).unwrap()
    };
    assert_eq!(at(110, 230).kernel_share_since(at(100, 200)), Some(0.75));
    assert_eq!(at(1, 1).kernel_share_since(at(1, 1)), None);
    assert_eq!(Ticks::parse("7 (a) S 1"), None);
    assert!(Ticks::of(std::process::id()).is_ok());
}

const SMAPS_ROLLUP: &str = "\
55d0a6c00000-7ffd3b5f9000 ---p 00000000 00:00 0                          [rollup]
Rss:                4012 kB
Pss:                1533 kB
Pss_Anon:            612 kB
Anonymous:           616 kB
LazyFree:              4 kB
AnonHugePages:         8 kB
";

#[test]
fn anonymous_is_neither_its_share_nor_its_huge_pages() {
    assert_eq!(kib(SMAPS_ROLLUP, "Anonymous:"), Some(616));
    assert_eq!(kib(SMAPS_ROLLUP, "Pss:"), Some(1533));
    assert_eq!(kib("Rss: 4012 kB\n", "Anonymous:"), None);
    assert_eq!(kib("Anonymous: 616 MB\n", "Anonymous:"), None);
    let memory = Memory::of(std::process::id()).unwrap();
    assert!(memory.anonymous_bytes > 4096 && memory.rss_bytes > memory.anonymous_bytes, "{memory:?}");
    assert!(memory.peak_rss_bytes > 4096 && memory.pss_bytes <= memory.rss_bytes, "{memory:?}");
}

#[test]
fn limits_have_a_soft_and_a_hard_column() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max processes             127235               127235               processes \n\
                  Max open files            1024                 unlimited            files     \n";
    assert_eq!(OpenFiles::parse(limits), Some(OpenFiles { soft: 1024, hard: u64::MAX }));
    assert_eq!(OpenFiles::parse("Max processes 1 2 processes"), None);
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
