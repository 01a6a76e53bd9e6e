//! The server of one worker: from an event to the connection, to its protocol, and on. The only room that knows all
//! protocols.
//!
//! Imports may go to the rooms below: `hub`, `h1`, `h2`, `websocket`, `exchange`, `memory`, `base`.
//!
//! | file | what it is |
//! |---|---|
//! | [`engine`] | the loop: accepts, takes events, steps connections, fires deadlines |
//! | [`connection`] | what is kept of a connection: parked, worked on, lingering |
//! | [`state`] | what the engine and its handlers share: the table, and what is written to it |
//! | [`exchanges`] | how a handler's calls reach its exchange |
//! | [`service`] | what answers requests, for the engine |
//! | [`request_queue`] | which requests begin in a turn, which wait for the next, which hear that there are too many |
//! | [`before_handshake`] | the PROXY header before a handshake of TLS |
//! | [`handshakes`] | handshakes of TLS: how many, for how long, and whose turn it is |
//! | [`handshake_steps`] | who makes a step, and what becomes of its connection |
//! | [`turns`] | who waits for the processor, and for how long |
//! | [`pressure`] | what each memory level means, and what is done in a turn |
//! | `pressure/shed_order` | who is shed, in which order, and how many |
//! | `pressure/heads` | incomplete heads, which go first |
//! | `pressure/end_lasting` | which of the connections that stay are told to end |
//! | `pressure/pace` | how fast peers are, while others wait |
//! | [`unread`] | the next request while memory is short: its bytes stay in the socket, whichever protocol they are |
//! | [`waiting`] | which connections of the table wait for memory, and for what |
//! | [`reserved_routes`] | requests for routes that are always answered |
//! | [`stay`] | holds on connections that stay |
//! | [`stay_bytes`] | what one of each sort of these takes, and what a handler that waits does |
//! | [`http1`] | HTTP/1.1: what comes becomes steps, requests are begun |
//! | [`http2`] | HTTP/2: an event becomes a step, and what that says is done; requests are begun |
//! | [`websockets`] | WebSockets: an event becomes a step, and what that says is done |
//! | [`recall`] | receives that are taken back when memory comes to be short |
//! | [`released`] | connections that go on as something else after an answer |
//! | [`closing`] | the ends of a connection, and the stop of the server |
//! | [`plan`] | what a server adds to the plan of the runtime |

pub(crate) mod before_handshake;
pub(crate) mod closing;
pub(crate) mod connection;
pub(crate) mod engine;
pub(crate) mod exchanges;
pub(crate) mod handshake_steps;
pub(crate) mod handshakes;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod plan;
pub(crate) mod pressure;
pub(crate) mod recall;
pub(crate) mod released;
pub(crate) mod request_queue;
pub(crate) mod reserved_routes;
pub(crate) mod service;
pub(crate) mod state;
pub(crate) mod stay;
pub(crate) mod stay_bytes;
pub(crate) mod turns;
pub(crate) mod unread;
pub(crate) mod waiting;
pub(crate) mod websockets;
