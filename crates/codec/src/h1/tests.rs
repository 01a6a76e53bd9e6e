//! Tests of HTTP/1, a file for each part.

mod body;
mod exchange;
mod heads;
mod response;
mod splits;
