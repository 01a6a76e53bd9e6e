//! How many workers a memory line carries.
#![forbid(unsafe_code)]

use crate::Error;

/// Bytes of line that a worker needs beside its fixed parts, to do anything at all: a few pages of slots, an exchange,
/// a credit quantum.
const WORKING_BYTES_MIN: u64 = 256 * 1024;
/// What each further worker may hold as credit that another one lacks, or keep for newcomers.
const CREDIT_BYTES: u64 = 320 * 1024;
/// Of the line, the part that workers take at most whose number nobody asked for: with more, memory would hardly ever
/// be calm.
const DEFAULT_PART: u64 = 2;

/// What workers need of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerNeed {
    /// The first one, which has the stack of its caller.
    first_bytes: u64,
    /// Each further one.
    further_bytes: u64,
}

/// How many workers there will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerCount {
    /// As many as were asked for, or one for each processor.
    AsAsked(usize),
    /// Fewer than there are processors: the line does not carry more.
    Lowered(usize),
}

impl WorkerNeed {
    /// For workers whose fixed parts have so many bytes, and further ones with a stack.
    pub(crate) fn new(fixed_bytes: u64, stack_bytes: u64) -> Self {
        let first_bytes = fixed_bytes + WORKING_BYTES_MIN;
        Self { first_bytes, further_bytes: first_bytes + stack_bytes + CREDIT_BYTES }
    }

    /// With so many bytes that there are once, whatever the number of workers.
    pub(crate) fn beside(self, bytes: u64) -> Self {
        Self { first_bytes: self.first_bytes + bytes, ..self }
    }

    /// What so many workers need beside their fixed parts and stacks.
    pub(crate) fn working_bytes(workers: usize) -> u64 {
        workers as u64 * WORKING_BYTES_MIN + (workers as u64 - 1) * CREDIT_BYTES
    }

    /// What so many workers need together. At least one.
    pub(crate) fn total_bytes(self, workers: usize) -> u64 {
        self.first_bytes + (workers as u64 - 1) * self.further_bytes
    }

    /// How many workers need no more than this.
    pub(crate) fn carried_by(self, bytes: u64) -> usize {
        bytes.checked_sub(self.first_bytes).map_or(0, |rest| 1 + (rest / self.further_bytes) as usize)
    }

    /// The number of workers under a line: `asked`, or at most one for each processor.
    ///
    /// # Errors
    ///
    /// [`Error::LineTooLow`] when the line does not carry what was asked for, or not even one.
    pub(crate) fn choose(self, asked: Option<usize>, processors: usize, line_bytes: u64) -> Result<WorkerCount, Error> {
        let workers = asked.unwrap_or_else(|| self.carried_by(line_bytes / DEFAULT_PART).clamp(1, processors));
        if self.total_bytes(workers) > line_bytes {
            return Err(Error::LineTooLow {
                needed_bytes: self.total_bytes(workers),
                line_bytes,
                workers,
                worker_bytes: if workers > 1 { self.further_bytes } else { self.first_bytes },
                workers_max: self.carried_by(line_bytes),
            });
        }
        let is_lowered = asked.is_none() && workers < processors;
        Ok(if is_lowered { WorkerCount::Lowered(workers) } else { WorkerCount::AsAsked(workers) })
    }
}

#[cfg(test)]
mod tests;
