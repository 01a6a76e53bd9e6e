//! `ConformanceService`: what is to be answered comes with the request.

use std::pin::Pin;
use std::time::Duration;

use async_stream::stream;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use prost::Message;
use prost_types::Any;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::messages::{
    Answer, BidiStreamRequest, ClientStreamRequest, Error, Header, IdempotentUnaryRequest, Outcome, Payload,
    RequestInfo, RpcStatus, ServerStreamRequest, StreamDefinition, UnaryDefinition, UnaryRequest, any,
};

tonic::include_proto!("connectrpc.conformance.v1.ConformanceService");

pub struct Conformance;

type Answers = Pin<Box<dyn Stream<Item = Result<Answer, Status>> + Send>>;
type Answered = Result<Response<Answers>, Status>;

#[tonic::async_trait]
impl conformance_service_server::ConformanceService for Conformance {
    type UnaryStream = Answers;
    type IdempotentUnaryStream = Answers;
    type ServerStreamStream = Answers;
    type ClientStreamStream = Answers;
    type BidiStreamStream = Answers;

    async fn unary(&self, request: Request<UnaryRequest>) -> Answered {
        let requests = vec![any(request.get_ref())];
        let info = info(request.metadata(), requests);
        single(request.into_inner().definition, info)
    }

    async fn idempotent_unary(&self, request: Request<IdempotentUnaryRequest>) -> Answered {
        let requests = vec![any(request.get_ref())];
        let info = info(request.metadata(), requests);
        single(request.into_inner().definition, info)
    }

    async fn server_stream(&self, request: Request<ServerStreamRequest>) -> Answered {
        let requests = vec![any(request.get_ref())];
        let info = info(request.metadata(), requests);
        let definition = request.into_inner().definition.unwrap_or_default();
        let headers = header_map(&definition.headers);
        Ok(response(headers, Box::pin(several(definition, info, 0))))
    }

    async fn client_stream(&self, request: Request<Streaming<ClientStreamRequest>>) -> Answered {
        let mut info = info(request.metadata(), Vec::new());
        let mut incoming = request.into_inner();
        let mut definition = None;
        while let Some(message) = incoming.message().await? {
            info.requests.push(any(&message));
            if info.requests.len() == 1 {
                definition = message.definition;
            }
        }
        single(definition, info)
    }

    async fn bidi_stream(&self, request: Request<Streaming<BidiStreamRequest>>) -> Answered {
        let mut info = info(request.metadata(), Vec::new());
        let mut incoming = request.into_inner();
        let Some(first) = incoming.message().await? else {
            return Ok(response(HeaderMap::new(), Box::pin(tokio_stream::empty())));
        };
        let is_full = first.full_duplex;
        info.requests.push(any(&first));
        let definition = first.definition.unwrap_or_default();
        let headers = header_map(&definition.headers);
        if !is_full {
            while let Some(message) = incoming.message().await? {
                info.requests.push(any(&message));
            }
            return Ok(response(headers, Box::pin(several(definition, info, 0))));
        }
        let answers = stream! {
            let mut sent = 0;
            let mut goes_on = true;
            while goes_on && sent < definition.data.len() {
                pause(definition.delay_ms).await;
                let payload = Payload { data: definition.data[sent].clone(), info: Some(std::mem::take(&mut info)) };
                sent += 1;
                yield Ok(Answer { payload: Some(payload) });
                match incoming.message().await {
                    Ok(Some(message)) => info.requests.push(any(&message)),
                    Ok(None) => goes_on = false,
                    Err(status) => {
                        yield Err(status);
                        return;
                    }
                }
            }
            let mut rest = std::pin::pin!(several(definition, info, sent));
            while let Some(answer) = rest.next().await {
                yield answer;
            }
        };
        Ok(response(headers, Box::pin(answers)))
    }
}

/// A single answer, or an error, with what was asked for around it.
fn single(definition: Option<UnaryDefinition>, info: RequestInfo) -> Answered {
    let definition = definition.unwrap_or_default();
    let headers = header_map(&definition.headers);
    let trailers = header_map(&definition.trailers);
    let answers = stream! {
        pause(definition.delay_ms).await;
        match definition.outcome {
            Some(Outcome::Error(error)) => yield Err(status(error, Some(info), trailers)),
            outcome => {
                let data = if let Some(Outcome::Data(data)) = outcome { data } else { Vec::new() };
                yield Ok(Answer { payload: Some(Payload { data, info: Some(info) }) });
                yield Err(end(trailers));
            }
        }
    };
    Ok(response(headers, Box::pin(answers)))
}

/// The answers from number `sent` on; the first of all has what is known of the request.
fn several(
    definition: StreamDefinition,
    info: RequestInfo,
    sent: usize,
) -> impl Stream<Item = Result<Answer, Status>> + Send {
    stream! {
        let trailers = header_map(&definition.trailers);
        let is_empty = definition.data.is_empty();
        let mut info = Some(info);
        for data in definition.data.into_iter().skip(sent) {
            pause(definition.delay_ms).await;
            let info = info.take().filter(|_| sent == 0);
            yield Ok(Answer { payload: Some(Payload { data, info }) });
        }
        match definition.error {
            Some(error) => yield Err(status(error, info.filter(|_| is_empty), trailers)),
            None => yield Err(end(trailers)),
        }
    }
}

async fn pause(milliseconds: u32) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
    }
}

fn response(headers: HeaderMap, answers: Answers) -> Response<Answers> {
    Response::from_parts(MetadataMap::from_headers(headers), answers, http::Extensions::new())
}

/// The trailers of an answer without an error.
fn end(trailers: HeaderMap) -> Status {
    Status::with_metadata(Code::Ok, "", MetadataMap::from_headers(trailers))
}

fn status(mut error: Error, info: Option<RequestInfo>, trailers: HeaderMap) -> Status {
    error.details.extend(info.map(|info| any(&info)));
    let message = error.message.unwrap_or_default();
    let details = RpcStatus { code: error.code, message: message.clone(), details: error.details };
    let metadata = MetadataMap::from_headers(trailers);
    Status::with_details_and_metadata(Code::from_i32(error.code), message, details.encode_to_vec().into(), metadata)
}

fn header_map(headers: &[Header]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for header in headers {
        for value in &header.value {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(&header.name), HeaderValue::try_from(value)) {
                map.append(name, value);
            }
        }
    }
    map
}

/// What is known of a request.
fn info(metadata: &MetadataMap, requests: Vec<Any>) -> RequestInfo {
    let mut headers: Vec<Header> = Vec::new();
    for entry in metadata.iter() {
        let (name, value) = match entry {
            KeyAndValueRef::Ascii(name, value) => (name.as_str(), value.as_encoded_bytes()),
            KeyAndValueRef::Binary(name, value) => (name.as_str(), value.as_encoded_bytes()),
        };
        let value = String::from_utf8_lossy(value).into_owned();
        match headers.iter_mut().find(|header| header.name == name) {
            Some(header) => header.value.push(value),
            None => headers.push(Header { name: name.to_owned(), value: vec![value] }),
        }
    }
    let timeout = metadata.get("grpc-timeout").and_then(|timeout| timeout.to_str().ok());
    RequestInfo { headers, timeout_ms: timeout.and_then(milliseconds), requests }
}

/// A value of `grpc-timeout`.
fn milliseconds(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: i64 = number.parse().ok()?;
    Some(match unit {
        "H" => number * 3_600_000,
        "M" => number * 60_000,
        "S" => number * 1_000,
        "m" => number,
        "u" => number / 1_000,
        "n" => number / 1_000_000,
        _ => return None,
    })
}
