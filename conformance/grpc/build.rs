//! The services' glue, by tonic's generator. Every answer is a stream of messages, also where the protocol has one
//! message: what goes over the connection is the same, and a stream can end with trailers of its own.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let mut services = Vec::new();
    for (package, name, methods) in
        [("connectrpc.conformance.v1", "ConformanceService", CONFORMANCE), ("grpc.testing", "TestService", INTEROP)]
    {
        let mut service = Service::builder().name(name).package(package);
        for (method, route, input, output, client_streaming) in methods {
            let mut method = Method::builder()
                .name(method)
                .route_name(route)
                .input_type(input)
                .output_type(output)
                .codec_path("tonic_prost::ProstCodec")
                .server_streaming();
            if *client_streaming {
                method = method.client_streaming();
            }
            service = service.method(method.build());
        }
        services.push(service.build());
    }
    Builder::new().build_client(false).compile(&services);
}

/// Name, route, input, output, whether the client sends a stream.
type Methods = &'static [(&'static str, &'static str, &'static str, &'static str, bool)];

const CONFORMANCE: Methods = &[
    ("unary", "Unary", "crate::messages::UnaryRequest", "crate::messages::Answer", false),
    (
        "idempotent_unary",
        "IdempotentUnary",
        "crate::messages::IdempotentUnaryRequest",
        "crate::messages::Answer",
        false,
    ),
    ("server_stream", "ServerStream", "crate::messages::ServerStreamRequest", "crate::messages::Answer", false),
    ("client_stream", "ClientStream", "crate::messages::ClientStreamRequest", "crate::messages::Answer", true),
    ("bidi_stream", "BidiStream", "crate::messages::BidiStreamRequest", "crate::messages::Answer", true),
];

const INTEROP: Methods = &[
    ("empty_call", "EmptyCall", "crate::interop::Empty", "crate::interop::Empty", false),
    ("unary_call", "UnaryCall", "crate::interop::SimpleRequest", "crate::interop::SimpleResponse", false),
    (
        "streaming_output_call",
        "StreamingOutputCall",
        "crate::interop::OutputRequest",
        "crate::interop::SimpleResponse",
        false,
    ),
    (
        "streaming_input_call",
        "StreamingInputCall",
        "crate::interop::SimpleResponse",
        "crate::interop::InputResponse",
        true,
    ),
    ("full_duplex_call", "FullDuplexCall", "crate::interop::OutputRequest", "crate::interop::SimpleResponse", true),
];
