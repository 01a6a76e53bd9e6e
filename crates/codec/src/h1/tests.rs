//! Tests of HTTP/1, a file for each part.

mod body;
mod body_out;
mod exchange;
mod heads;
mod interim;
mod response;
mod slow;
mod splits;
