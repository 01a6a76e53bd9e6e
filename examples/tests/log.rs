//! The access log's own tests: those of an example do not run by themselves.
#![allow(missing_docs)]

#[path = "../arena/log.rs"]
mod log;
