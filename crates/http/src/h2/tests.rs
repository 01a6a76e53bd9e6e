//! Steps of HTTP/2 without a table, a worker or a runtime's sockets: a script stands for the socket.

mod bench;
mod memory;
mod steps;
