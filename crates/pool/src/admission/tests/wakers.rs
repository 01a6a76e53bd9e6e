//! Wakers that panic end nothing but what they were to wake.
#![forbid(unsafe_code)]

use super::*;

/// Panics when it is woken.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics when it is woken");
    }
}

fn poll_with_a_bomb<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Bomb))))
}

const LARGE: Footprint = Footprint::one(131_072);

/// Nobody waits, and all there was is there.
fn assert_nothing_is_left(admission: &Admission) {
    assert_eq!(admission.waiting(), 0);
    assert!(admission.try_reserve(LARGE).is_ok());
}

#[test]
fn a_permit_ends_though_who_is_next_panics() {
    let admission = port(MemoryLimit::kib(256), AdmissionConfig::default());
    let permit = admission.try_reserve(LARGE).expect("there is room");
    let mut next = Box::pin(admission.reserve(LARGE, Priority::Head, 1));
    assert!(poll_with_a_bomb(next.as_mut()).is_pending());
    drop(permit);
    assert!(matches!(poll_once(next.as_mut()), Poll::Ready(Ok(_))), "it has its grant");
    assert_nothing_is_left(&admission);
}

#[test]
fn a_wait_begins_though_one_that_is_granted_then_panics() {
    let admission = port(MemoryLimit::kib(256), AdmissionConfig::default());
    let lease = admission.pool().try_acquire(131_072, Kind::Buffers).expect("there is room");
    let mut first = Box::pin(admission.reserve(LARGE, Priority::Head, 1));
    assert!(poll_with_a_bomb(first.as_mut()).is_pending());
    // Nobody was told of that yet: the next one who comes finds out.
    drop(lease);
    let mut second = Box::pin(admission.reserve(LARGE, Priority::Head, 1));
    assert!(poll_once(second.as_mut()).is_pending(), "the first has it");
    assert!(matches!(poll_once(first.as_mut()), Poll::Ready(Ok(_))));
    assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Ok(_))));
    drop((first, second));
    assert_nothing_is_left(&admission);
}

#[test]
fn a_turn_goes_on_though_those_that_it_tells_panic() {
    let config = AdmissionConfig::default().wait_timeout(Duration::from_nanos(700));
    let admission = port(MemoryLimit::kib(256), config);
    let lease = admission.pool().try_acquire(131_072, Kind::Buffers).expect("there is room");
    let mut late = [(); 2].map(|()| Box::pin(admission.reserve(LARGE, Priority::Head, 1)));
    for future in &mut late {
        assert!(poll_with_a_bomb(future.as_mut()).is_pending());
    }
    admission.tick(700);
    for future in &mut late {
        assert!(matches!(poll_once(future.as_mut()), Poll::Ready(Err(Shed::Deadline))));
    }
    let mut granted = Box::pin(admission.reserve(LARGE, Priority::Head, 1).deadline(u64::MAX));
    assert!(poll_with_a_bomb(granted.as_mut()).is_pending());
    drop(lease);
    admission.tick(800);
    assert!(matches!(poll_once(granted.as_mut()), Poll::Ready(Ok(_))));
    drop(granted);
    assert_nothing_is_left(&admission);
}

#[test]
fn all_that_watch_the_level_are_told_though_one_panics() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let told = Arc::<Count>::default();
    let mut watches = [(); 2].map(|()| budget.watch());
    let [first, second] = &mut watches;
    assert!(first.poll_changed(&mut Context::from_waker(&Arc::new(Bomb).into())).is_pending());
    assert!(second.poll_changed(&mut Context::from_waker(&Arc::clone(&told).into())).is_pending());
    let _most = budget.charge(Kind::Buffers, 900 << 10).expect("there is room");
    assert!(budget.observe().is_some(), "the level goes up");
    assert_eq!(told.0.load(Ordering::Relaxed), 1);
}
