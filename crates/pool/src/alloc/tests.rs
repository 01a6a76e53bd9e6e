//! Properties, for fewer and more threads than stripes: what all threads count together is there, whoever counts its
//! end.
#![forbid(unsafe_code)]

use super::*;

fn counts_what_threads_count<const STRIPES: usize>(threads: i64) {
    let heap = Heap::<STRIPES>::new();
    assert_eq!(heap.bytes(), 0);
    std::thread::scope(|scope| {
        for thread in 1..=threads {
            let heap = &heap;
            scope.spawn(move || {
                (0..100).for_each(|_| heap.add(thread));
                heap.add(-50 * thread);
            });
        }
    });
    let left = 50 * threads * (threads + 1) / 2;
    assert_eq!(heap.bytes(), left as u64, "{threads} threads on {STRIPES} stripes");
    // A thread that has allocated nothing ends what others began.
    let heap = &heap;
    std::thread::scope(|scope| _ = scope.spawn(move || heap.add(-left)));
    assert_eq!(heap.bytes(), 0);
    let used = heap.stripes.iter().filter(|stripe| stripe.0.load(Ordering::Relaxed) != 0).count();
    assert!(used > 1 || STRIPES == 1 || threads == 1, "threads count in different places");
}

#[test]
fn threads_count_together_however_many_there_are() {
    counts_what_threads_count::<1>(1);
    counts_what_threads_count::<1>(5);
    counts_what_threads_count::<3>(2);
    counts_what_threads_count::<3>(10);
    counts_what_threads_count::<STRIPES>(2 * STRIPES as i64 + 1);
}

#[test]
fn a_sum_below_nothing_is_nothing() {
    let heap = Heap::<2>::new();
    heap.add(-1);
    assert_eq!(heap.bytes(), 0, "the other side of the move is not seen yet");
}
