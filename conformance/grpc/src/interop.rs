//! `grpc.testing.TestService`: what the interop clients of gRPC's own implementations ask.

use std::pin::Pin;
use std::time::Duration;

use async_stream::try_stream;
use http::HeaderMap;
use prost::Message;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};

tonic::include_proto!("grpc.testing.TestService");

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EchoStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SimpleRequest {
    #[prost(int32, tag = "2")]
    pub size: i32,
    #[prost(message, optional, tag = "7")]
    pub status: Option<EchoStatus>,
    #[prost(bool, tag = "9")]
    pub names_server: bool,
}

/// Also what a client streams, and what a streamed answer is made of.
#[derive(Clone, PartialEq, Message)]
pub struct SimpleResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    #[prost(string, tag = "4")]
    pub server_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct InputResponse {
    #[prost(int32, tag = "1")]
    pub size: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Parameters {
    #[prost(int32, tag = "1")]
    pub size: i32,
    #[prost(int32, tag = "2")]
    pub interval_us: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct OutputRequest {
    #[prost(message, repeated, tag = "2")]
    pub parameters: Vec<Parameters>,
    #[prost(message, optional, tag = "7")]
    pub status: Option<EchoStatus>,
}

pub struct Interop;

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl test_service_server::TestService for Interop {
    type EmptyCallStream = Messages<Empty>;
    type UnaryCallStream = Messages<SimpleResponse>;
    type StreamingOutputCallStream = Messages<SimpleResponse>;
    type StreamingInputCallStream = Messages<InputResponse>;
    type FullDuplexCallStream = Messages<SimpleResponse>;

    async fn empty_call(&self, request: Request<Empty>) -> Result<Response<Messages<Empty>>, Status> {
        Ok(echoing(request.metadata(), tokio_stream::once(Ok(Empty {}))))
    }

    async fn unary_call(&self, request: Request<SimpleRequest>) -> Result<Response<Messages<SimpleResponse>>, Status> {
        let (metadata, _, SimpleRequest { size, status, names_server }) = request.into_parts();
        refused(status)?;
        let server_id = if names_server { format!("process {}", std::process::id()) } else { String::new() };
        let answer = SimpleResponse { server_id, ..response(size) };
        Ok(echoing(&metadata, tokio_stream::once(Ok(answer))))
    }

    async fn streaming_output_call(
        &self,
        request: Request<OutputRequest>,
    ) -> Result<Response<Messages<SimpleResponse>>, Status> {
        let (metadata, _, request) = request.into_parts();
        Ok(echoing(&metadata, outputs(request)))
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<SimpleResponse>>,
    ) -> Result<Response<Messages<InputResponse>>, Status> {
        let (metadata, _, mut incoming) = request.into_parts();
        let mut bytes = 0;
        while let Some(message) = incoming.message().await? {
            bytes += message.payload.map_or(0, |payload| payload.body.len());
        }
        Ok(echoing(&metadata, tokio_stream::once(Ok(InputResponse { size: bytes as i32 }))))
    }

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<OutputRequest>>,
    ) -> Result<Response<Messages<SimpleResponse>>, Status> {
        let (metadata, _, mut incoming) = request.into_parts();
        let answers = try_stream! {
            while let Some(request) = incoming.message().await? {
                let mut outputs = std::pin::pin!(outputs(request));
                while let Some(output) = outputs.next().await {
                    yield output?;
                }
            }
        };
        Ok(echoing(&metadata, answers))
    }
}

fn outputs(request: OutputRequest) -> impl Stream<Item = Result<SimpleResponse, Status>> + Send {
    try_stream! {
        refused(request.status)?;
        for parameters in request.parameters {
            if parameters.interval_us > 0 {
                tokio::time::sleep(Duration::from_micros(parameters.interval_us as u64)).await;
            }
            yield response(parameters.size);
        }
    }
}

fn response(size: i32) -> SimpleResponse {
    SimpleResponse { payload: Some(Payload { kind: 0, body: vec![0; size.max(0) as usize] }), server_id: String::new() }
}

fn refused(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(EchoStatus { code, message }) if code != 0 => Err(Status::new(Code::from_i32(code), message)),
        _ => Ok(()),
    }
}

/// An answer that gives the client's metadata for it back, before its messages and behind them.
fn echoing<T: Send + 'static>(
    metadata: &MetadataMap,
    messages: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Response<Messages<T>> {
    let (mut headers, mut trailers) = (HeaderMap::new(), HeaderMap::new());
    let metadata = metadata.clone().into_headers();
    for (map, name) in [(&mut headers, "x-grpc-test-echo-initial"), (&mut trailers, "x-grpc-test-echo-trailing-bin")] {
        if let Some(value) = metadata.get(name) {
            map.insert(name, value.clone());
        }
    }
    let end = Status::with_metadata(Code::Ok, "", MetadataMap::from_headers(trailers));
    let messages: Messages<T> = Box::pin(messages.chain(tokio_stream::once(Err(end))));
    Response::from_parts(MetadataMap::from_headers(headers), messages, http::Extensions::new())
}
