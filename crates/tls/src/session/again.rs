//! Sessions that are made again of a machine whose handshake is over.
#![forbid(unsafe_code)]

use core::ops::DerefMut;

use plimsoll_pool::Lease;

use super::{Course, FLIGHT_BYTES_MAX, Kept, Session};
use crate::machine::Machine;

/// What a session keeps, without its machine.
pub(crate) struct Waiting {
    kept: Option<Kept>,
    output: Option<Lease>,
    course: Course,
}

impl Waiting {
    pub(crate) fn is_nothing(&self) -> bool {
        self.kept.is_none() && self.output.is_none() && self.course == Course::Open
    }
}

impl<M: DerefMut<Target: Machine>> Session<M> {
    /// One that is open, and keeps nothing.
    pub(crate) fn again(machine: M) -> Self {
        Self::unpacked(machine, Waiting { kept: None, output: None, course: Course::Open })
    }

    pub(crate) fn unpacked(machine: M, Waiting { kept, output, course }: Waiting) -> Self {
        Self { machine, kept, output, course, handshake_left: FLIGHT_BYTES_MAX, charge: None }
    }

    pub(crate) fn into_waiting(self) -> Waiting {
        Waiting { kept: self.kept, output: self.output, course: self.course }
    }
}
