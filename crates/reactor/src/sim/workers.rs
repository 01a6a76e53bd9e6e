//! File operations, which kernel workers do.
#![forbid(unsafe_code)]

use super::config::nanos;
use super::events::Event;
use super::faults::Fault;
use super::files::OpenFile;
use super::flight::{FileCall, Flight, Outcome, Pause, Stage, Verb, Worker};
use super::kernel::{Kernel, MOMENT_NS};
use super::objects::Object;
use crate::Errno;

impl Kernel {
    /// Puts a file operation on a kernel worker.
    pub(super) fn begin_file(&mut self, id: u64, flight: &mut Flight) {
        let mut at = match flight.pause {
            Pause::Until(at) => at,
            _ => self.now,
        };
        flight.pause = Pause::Over;
        at += self.rng.between(MOMENT_NS, nanos(self.config.file_latency_max).max(MOMENT_NS));
        let slow = self.fault(Fault::SlowFile);
        if slow {
            at += self.rng.between(MOMENT_NS, nanos(self.config.faults.slow_max).max(MOMENT_NS));
        }
        let done = self.events.add(at, Event::FileDone(id));
        flight.stage = Stage::Working(if slow || self.rng.below(2) == 0 { Worker::Busy } else { Worker::Queued(done) });
    }

    pub(super) fn file_done(&mut self, id: u64) {
        let Some(mut flight) = self.flights.remove(&id) else { return };
        let outcome = match &flight.verb {
            Verb::Open { path, flags, mode } => {
                let opened = if self.fault(Fault::FileError) {
                    Err(Errno(libc::EIO))
                } else {
                    self.descriptors
                        .check_room()
                        .and_then(|()| self.files.open(path, *flags, *mode, self.now))
                        .and_then(|file| self.open(Object::File(file)))
                };
                Outcome::new(opened.map(|fd| fd.raw() as u32))
            }
            Verb::File { file: Some(file), call } => self.file_call(file, call),
            verb => unreachable!("only file operations are on a worker, not {verb:?}"),
        };
        self.complete(id, &mut flight, outcome);
        self.flights.insert(id, flight);
    }

    /// Does what a worker was asked for.
    fn file_call(&mut self, file: &OpenFile, call: &FileCall) -> Outcome {
        if self.fault(Fault::FileError) {
            return Outcome::error(libc::EIO);
        }
        match call {
            FileCall::Stat => Outcome::brings(file.stat().to_vec()),
            FileCall::ReadAt { len_max, offset } => match file.readable(*len_max, *offset) {
                Ok(len) => Outcome::brings(file.read(self.shorten(len, Fault::ShortRead), *offset)),
                Err(errno) => Outcome::new(Err(errno)),
            },
            FileCall::WriteAt { bytes, offset } => Outcome::new(self.write_at(file, bytes, *offset)),
            FileCall::Fsync => Outcome::new(file.sync().map(|()| 0)),
        }
    }

    fn write_at(&mut self, file: &OpenFile, bytes: &[u8], offset: u64) -> Result<u32, Errno> {
        file.check_write()?;
        let len = self.shorten(bytes.len(), Fault::ShortWrite);
        file.write(&bytes[..len], offset, self.files.bytes_max, self.now)?;
        Ok(len as u32)
    }

    /// As many bytes, or fewer if a fault wants it so.
    fn shorten(&mut self, len: usize, fault: Fault) -> usize {
        if len > 1 && self.fault(fault) { self.rng.part(len) } else { len }
    }
}
