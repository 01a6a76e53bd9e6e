//! Properties of a pipe, against a model of three plain queues:
//!
//! * bytes come out in the order they went in, each once;
//! * neither buffer ever holds more than its size;
//! * the end arrives after the last byte, and nothing arrives after a cut.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use proptest::prelude::*;

use crate::sim::pipe::{Departure, Pipe, Tail};

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Depart(usize),
    Arrive,
    Take(usize),
    Finish,
    DropUnsent,
    Cut,
}

#[derive(Default)]
struct Model {
    unsent: VecDeque<u8>,
    flying: VecDeque<Vec<u8>>,
    arrived: VecDeque<u8>,
}

impl Model {
    fn flying_len(&self) -> usize {
        self.flying.iter().map(Vec::len).sum()
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..40_usize).prop_map(Step::Push),
        8 => (1..20_usize).prop_map(Step::Depart),
        8 => Just(Step::Arrive),
        8 => (0..40_usize).prop_map(Step::Take),
        1 => Just(Step::Finish),
        1 => Just(Step::DropUnsent),
        1 => Just(Step::Cut),
    ]
}

proptest! {
    #[test]
    fn a_pipe_is_three_queues(
        send_max in 1..64_usize,
        receive_max in 1..64_usize,
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut pipe = Pipe::new(send_max, receive_max);
        let mut model = Model::default();
        let mut next = 0_u8;
        for step in steps {
            match step {
                Step::Push(len) if pipe.tail() == Tail::Open => {
                    let bytes: Vec<u8> = (0..len).map(|at| next.wrapping_add(at as u8)).collect();
                    let room = send_max - model.unsent.len() - model.flying_len();
                    prop_assert_eq!(pipe.room(), room);
                    let taken = pipe.push(&bytes);
                    prop_assert_eq!(taken, len.min(room));
                    model.unsent.extend(&bytes[..taken]);
                    next = next.wrapping_add(taken as u8);
                }
                Step::Depart(len) => match pipe.departure(len) {
                    Some(Departure::Segment(offered)) => {
                        let window = receive_max - model.arrived.len() - model.flying_len();
                        prop_assert_eq!(offered, len.min(window).min(model.unsent.len()));
                        pipe.depart(Departure::Segment(offered));
                        model.flying.push_back(model.unsent.drain(..offered).collect());
                    }
                    Some(Departure::Finish) => {
                        prop_assert!(model.unsent.is_empty());
                        pipe.depart(Departure::Finish);
                    }
                    None => {
                        let full = model.arrived.len() + model.flying_len() == receive_max;
                        prop_assert!(model.unsent.is_empty() || full);
                    }
                },
                Step::Arrive => match model.flying.pop_front() {
                    Some(segment) => {
                        pipe.arrive(segment.len());
                        model.arrived.extend(segment);
                    }
                    None if pipe.tail() == Tail::Flying => pipe.arrive_finish(),
                    None => {}
                },
                Step::Take(len) => {
                    let taken = pipe.take(len);
                    let count = len.min(model.arrived.len());
                    let expected: Vec<u8> = model.arrived.drain(..count).collect();
                    prop_assert_eq!(taken, expected);
                }
                Step::Finish => pipe.finish(),
                Step::DropUnsent => {
                    pipe.drop_unsent();
                    model.unsent.clear();
                }
                Step::Cut => {
                    pipe.cut();
                    model.unsent.clear();
                    model.flying.clear();
                }
                Step::Push(_) => {}
            }
            prop_assert_eq!(pipe.unsent(), model.unsent.len());
            prop_assert_eq!(pipe.arrived(), model.arrived.len());
            prop_assert!(pipe.arrived() + model.flying_len() <= receive_max);
            prop_assert!(model.flying_len() + model.unsent.len() <= send_max);
            prop_assert!(pipe.tail() != Tail::Arrived || (model.unsent.is_empty() && model.flying.is_empty()));
        }
    }
}
