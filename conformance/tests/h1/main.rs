//! The cases of HTTP/1.1 on the codec, on the whole server with every driver, and in the document that shows them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod codec;

mod document;
mod handler;
mod server;
