//! The suites that run once more, with a transport beneath them.

#[path = "../http1/answers.rs"]
mod http1_answers;
#[path = "../http1/attacks.rs"]
mod http1_attacks;
#[path = "../http1/bulk.rs"]
mod http1_bulk;
#[path = "../http1/deadlines.rs"]
mod http1_deadlines;
#[path = "../http1/exchanges.rs"]
mod http1_exchanges;
#[path = "../http1/half_close.rs"]
mod http1_half_close;
#[path = "../http1/interim.rs"]
mod http1_interim;
#[path = "../http1/landed.rs"]
mod http1_landed;
#[path = "../http1/malformed.rs"]
mod http1_malformed;
#[path = "../http1/server.rs"]
mod http1_server;
#[path = "../http1/unread.rs"]
mod http1_unread;
#[path = "../http1/upgrade.rs"]
mod http1_upgrade;
#[path = "../websocket/http2.rs"]
mod http2;
#[path = "../http2/deadlines.rs"]
mod http2_deadlines;
#[path = "../http2/half_close.rs"]
mod http2_half_close;
#[path = "../http2/requests.rs"]
mod http2_requests;
#[path = "../http2/tunnel.rs"]
mod http2_tunnel;
#[path = "../http2/waiting.rs"]
mod http2_waiting;
#[path = "members.rs"]
mod members;
#[path = "../websocket/codes.rs"]
mod websocket_codes;
#[path = "../websocket/messages.rs"]
mod websocket_messages;
#[path = "../websocket/sse.rs"]
mod websocket_sse;
