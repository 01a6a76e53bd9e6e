//! Starts the example programs as their users do and holds them to what their command lines promise, on every driver
//! that runs here.
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

mod browser;
mod chat;
mod client;
mod deploy;
mod ends;
mod flags;
mod h2_attacks;
mod h2c;
mod http_arena;
mod log;
mod metrics;
mod process;
mod push;
mod relay;
mod release;
mod restart;
mod routes;
mod secured;
mod small;
mod socket;
