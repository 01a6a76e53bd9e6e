//! A reader and its publishers. With `--cfg loom`, every interleaving of small programs:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-http --lib loom`.
//!
//! * A message that is put in is read once, in the order of each publisher; a reader that waits is woken.
//! * A close is seen, after what was put in before it.

use super::super::queue::{Bounds, SlowConsumer, Weigh};

impl Weigh for u32 {
    fn weight_bytes(&self) -> u64 {
        1
    }
}

const BOUNDS: Bounds = Bounds { messages_max: 4, bytes_max: 4, policy: SlowConsumer::DropOldest };

#[cfg(not(loom))]
mod plain {
    use ::core::task::{Context, Poll, Waker};

    use plimsoll_pool::{Budget, MemoryLimit};

    use super::super::{Port, Taken, Wants};
    use super::{BOUNDS, Bounds, SlowConsumer};

    #[test]
    fn a_reader_that_is_too_slow_misses_what_the_policy_says() {
        let budget = Budget::new(MemoryLimit::mib(1));
        let cx = &mut Context::from_waker(Waker::noop());
        for (policy, expected) in [(SlowConsumer::DropOldest, [3, 4, 5, 6]), (SlowConsumer::DropNewest, [1, 2, 3, 4])] {
            let port = Port::new(Wants::All);
            let bounds = Bounds { policy, ..BOUNDS };
            for item in 1..=6_u32 {
                port.push(item, &bounds, &budget);
            }
            assert_eq!(expected.map(|_| port.poll(cx)), expected.map(|item| Poll::Ready(Taken::Item(item))));
            assert_eq!(port.poll(cx), Poll::Pending);
            assert_eq!((port.take_missed(), port.take_missed()), (2, 0));
        }
        let port = Port::new(Wants::All);
        let bounds = Bounds { policy: SlowConsumer::Close, ..BOUNDS };
        for item in 1..=6_u32 {
            port.push(item, &bounds, &budget);
        }
        for item in 1..=4 {
            assert_eq!(port.poll(cx), Poll::Ready(Taken::Item(item)), "what waited is read");
        }
        assert_eq!(port.poll(cx), Poll::Ready(Taken::Overrun));
        port.close();
        assert_eq!(port.poll(cx), Poll::Ready(Taken::Overrun), "why it ended stays");
    }
}

#[cfg(loom)]
mod loom_models {
    use ::core::task::{Context, Poll, Waker};
    use std::sync::Arc as StdArc;
    use std::task::Wake;

    use loom::sync::{Arc, Notify};
    use loom::thread;
    use plimsoll_pool::{Budget, MemoryLimit};

    use super::super::{Port, Taken, Wants};
    use super::BOUNDS;

    struct Bell(Notify);

    impl Wake for Bell {
        fn wake(self: StdArc<Self>) {
            self.0.notify();
        }
    }

    /// Reads so many, or to the end; sleeps when nothing is there. A wake that is lost is a deadlock, which loom
    /// reports.
    fn read(port: &Port<u32>, count: usize) -> Vec<u32> {
        let bell = StdArc::new(Bell(Notify::new()));
        let waker = Waker::from(StdArc::clone(&bell));
        let mut cx = Context::from_waker(&waker);
        let mut read = Vec::new();
        while read.len() < count {
            match port.poll(&mut cx) {
                Poll::Ready(Taken::Item(item)) => read.push(item),
                Poll::Ready(_) => break,
                Poll::Pending => bell.0.wait(),
            }
        }
        read
    }

    #[test]
    fn loom_two_publishers_and_a_reader() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let port = Arc::new(Port::new(Wants::All));
            let budget = Budget::new(MemoryLimit::mib(1));
            let publish = |items: &'static [u32]| {
                let (port, budget) = (Arc::clone(&port), StdArc::clone(&budget));
                thread::spawn(move || {
                    for item in items {
                        port.push(*item, &BOUNDS, &budget);
                        port.wake();
                    }
                })
            };
            let publishers = [publish(&[1, 2]), publish(&[11])];
            let read = read(&port, 3);
            let of = |from: u32| read.iter().filter(|item| **item / 10 == from / 10).copied().collect::<Vec<_>>();
            assert_eq!((of(1), of(11)), (vec![1, 2], vec![11]));
            for publisher in publishers {
                publisher.join().expect("no panic");
            }
        });
    }

    #[test]
    fn loom_a_close_is_seen() {
        loom::model(|| {
            let port = Arc::new(Port::new(Wants::All));
            let closing = Arc::clone(&port);
            let closer = thread::spawn(move || closing.close());
            assert_eq!(read(&port, 1), []);
            closer.join().expect("no panic");
        });
    }
}
