//! What is counted of exchanges: when an answer is finished, and which reason stays.

use super::{Answered, Course, ExchangeEnd};
use crate::base::counters::{Counters, Totals};

fn ended(counters: &Counters) -> [u64; ExchangeEnd::ALL.len()] {
    let Totals { exchanges_ended_total, .. } = counters.totals();
    exchanges_ended_total
}

#[test]
fn an_answer_is_finished_when_the_socket_has_taken_it() {
    let counters = Counters::new(1);
    let mut answered = Answered::default();
    let mut course = Course::Running;
    answered.add(&mut course, &counters.0[0]);
    assert_eq!(course, Course::None);
    answered.settle(true, false, &counters.0[0]);
    assert_eq!(ended(&counters), [0; 5], "another send is in flight");
    answered.settle(false, false, &counters.0[0]);
    assert_eq!(ended(&counters), [0; 5], "that has left, this waits");
    answered.settle(true, true, &counters.0[0]);
    assert_eq!(ended(&counters), [0; 5], "now it is in flight");
    answered.add(&mut Course::Running, &counters.0[0]);
    answered.settle(false, false, &counters.0[0]);
    assert_eq!(ended(&counters), [1, 0, 0, 0, 0], "the next one waits behind it");
    answered.end(ExchangeEnd::Timeout, &counters.0[0]);
    answered.end(ExchangeEnd::Peer, &counters.0[0]);
    assert_eq!(ended(&counters), [1, 0, 1, 0, 0], "each ends once");
}

#[test]
fn the_first_reason_stays() {
    let counters = Counters::new(1);
    let mut course = Course::Running;
    course.note(ExchangeEnd::Timeout);
    course.note(ExchangeEnd::Overstay);
    course.end(ExchangeEnd::Peer, &counters.0[0]);
    assert_eq!(ended(&counters), [0, 0, 1, 0, 0]);
    course.end(ExchangeEnd::Peer, &counters.0[0]);
    course.note(ExchangeEnd::Peer);
    Answered::default().add(&mut course, &counters.0[0]);
    assert_eq!(ended(&counters), [0, 0, 1, 0, 0], "what is over ends no more");
}
