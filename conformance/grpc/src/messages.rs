//! The messages of `connectrpc.conformance.v1`, as far as a server of gRPC sees them.

use prost::{Message, Name};
use prost_types::Any;

#[derive(Clone, PartialEq, Message)]
pub struct ServerCompatRequest {
    #[prost(uint32, tag = "6")]
    pub message_receive_limit: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerCompatResponse {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(uint32, tag = "2")]
    pub port: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, optional, tag = "2")]
    pub message: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Outcome {
    #[prost(bytes, tag = "2")]
    Data(Vec<u8>),
    #[prost(message, tag = "3")]
    Error(Error),
}

#[derive(Clone, PartialEq, Message)]
pub struct UnaryDefinition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(oneof = "Outcome", tags = "2, 3")]
    pub outcome: Option<Outcome>,
    #[prost(message, repeated, tag = "4")]
    pub trailers: Vec<Header>,
    #[prost(uint32, tag = "6")]
    pub delay_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamDefinition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub data: Vec<Vec<u8>>,
    #[prost(uint32, tag = "3")]
    pub delay_ms: u32,
    #[prost(message, optional, tag = "4")]
    pub error: Option<Error>,
    #[prost(message, repeated, tag = "5")]
    pub trailers: Vec<Header>,
}

/// A message with a definition of a single answer.
macro_rules! unary_request {
    ($name:ident) => {
        #[derive(Clone, PartialEq, Message)]
        pub struct $name {
            #[prost(message, optional, tag = "1")]
            pub definition: Option<UnaryDefinition>,
            #[prost(bytes = "vec", tag = "2")]
            pub data: Vec<u8>,
        }

        impl Name for $name {
            const NAME: &'static str = stringify!($name);
            const PACKAGE: &'static str = PACKAGE;
        }
    };
}

unary_request!(UnaryRequest);
unary_request!(IdempotentUnaryRequest);
unary_request!(ClientStreamRequest);

#[derive(Clone, PartialEq, Message)]
pub struct ServerStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub definition: Option<StreamDefinition>,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

impl Name for ServerStreamRequest {
    const NAME: &'static str = "ServerStreamRequest";
    const PACKAGE: &'static str = PACKAGE;
}

#[derive(Clone, PartialEq, Message)]
pub struct BidiStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub definition: Option<StreamDefinition>,
    #[prost(bool, tag = "2")]
    pub full_duplex: bool,
    #[prost(bytes = "vec", tag = "3")]
    pub data: Vec<u8>,
}

impl Name for BidiStreamRequest {
    const NAME: &'static str = "BidiStreamRequest";
    const PACKAGE: &'static str = PACKAGE;
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestInfo {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(int64, optional, tag = "2")]
    pub timeout_ms: Option<i64>,
    #[prost(message, repeated, tag = "3")]
    pub requests: Vec<Any>,
}

impl Name for RequestInfo {
    const NAME: &'static str = "ConformancePayload.RequestInfo";
    const PACKAGE: &'static str = PACKAGE;
}

#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub info: Option<RequestInfo>,
}

/// `UnaryResponse`, `ServerStreamResponse` and so on: they look alike.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

/// `google.rpc.Status`: an error with its details.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

const PACKAGE: &str = "connectrpc.conformance.v1";

/// A message with the name of its type.
pub fn any(message: &(impl Message + Name)) -> Any {
    Any { type_url: format!("type.googleapis.com/{}", full_name(message)), value: message.encode_to_vec() }
}

fn full_name<M: Name>(_message: &M) -> String {
    format!("{}.{}", M::PACKAGE, M::NAME)
}
