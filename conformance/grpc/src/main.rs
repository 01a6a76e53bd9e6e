//! A server of gRPC for other people's suites: served by tonic's own transport or by Plimsoll, the same service.
//!
//! `--service conformance` reads a `ServerCompatRequest` from its input and writes a `ServerCompatResponse`, as
//! connectrpc's suite wants it; `--service interop` prints where it listens; `--service axum` is a router for h2spec.

mod conformance;
mod interop;
mod messages;

use std::error::Error;
use std::io::{Read, Write};
use std::net::SocketAddr;

use clap::{Parser, ValueEnum};
use plimsoll::http::Server;
use plimsoll::{DriverChoice, Runtime};
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

use conformance::Conformance;
use conformance::conformance_service_server::ConformanceServiceServer;
use interop::Interop;
use interop::test_service_server::TestServiceServer;
use messages::{ServerCompatRequest, ServerCompatResponse};

#[derive(Debug, Parser)]
struct Flags {
    /// What carries the service
    #[arg(long)]
    transport: Transport,
    /// The driver of Plimsoll
    #[arg(long, default_value = "auto")]
    driver: Driver,
    #[arg(long)]
    service: Service,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Tonic,
    Plimsoll,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Driver {
    Auto,
    Uring,
    Mio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    Conformance,
    Interop,
    Axum,
}

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let flags = Flags::parse();
    let routes = match flags.service {
        Service::Conformance => Routes::new(conformance(read_request()?.message_receive_limit)),
        Service::Interop => Routes::new(TestServiceServer::new(Interop).max_decoding_message_size(usize::MAX)),
        Service::Axum => return on_plimsoll(flags, router()),
    };
    match flags.transport {
        Transport::Tonic => on_tonic(flags.service, routes),
        Transport::Plimsoll => on_plimsoll(flags, routes.prepare().into_axum_router()),
    }
}

fn on_tonic(service: Service, routes: Routes) -> Outcome {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        announce(service, listener.local_addr()?)?;
        let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let server = tonic::transport::Server::builder().add_routes(routes);
        server.serve_with_incoming_shutdown(TcpListenerStream::new(listener), async { _ = stop.recv().await }).await?;
        Ok(())
    })
}

fn on_plimsoll(flags: Flags, router: axum::Router) -> Outcome {
    let driver = match flags.driver {
        Driver::Auto => DriverChoice::Auto,
        Driver::Uring => DriverChoice::Uring,
        Driver::Mio => DriverChoice::Mio,
    };
    let runtime = Runtime::builder().workers(1).driver(driver).signals(true).tokio_context().build()?;
    runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0")?;
        // A suite of HTTP/2 alone: an answer of HTTP/1.1 is none to it.
        let server = if flags.service == Service::Axum { server.http2_only() } else { server };
        announce(flags.service, server.local_addr())?;
        plimsoll_tower::serve(server, router).await?;
        Ok::<_, Box<dyn Error>>(())
    })
}

fn conformance(message_bytes_max: u32) -> ConformanceServiceServer<Conformance> {
    let bytes_max = if message_bytes_max == 0 { usize::MAX } else { message_bytes_max as usize };
    let mut server = ConformanceServiceServer::new(Conformance).max_decoding_message_size(bytes_max);
    for encoding in [CompressionEncoding::Gzip, CompressionEncoding::Deflate] {
        server = server.accept_compressed(encoding).send_compressed(encoding);
    }
    server
}

/// For h2spec: it wants an answer with a body for GET and POST.
fn router() -> axum::Router {
    let hello = async |body: String| format!("{} bytes came; {}", body.len(), "here is a kilobyte ".repeat(54));
    axum::Router::new().route("/", axum::routing::any(hello))
}

/// The suite's request: four bytes of length, the most significant first, and a message.
fn read_request() -> Result<ServerCompatRequest, Box<dyn Error>> {
    let mut input = std::io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut message)?;
    Ok(ServerCompatRequest::decode(&message[..])?)
}

/// Says where the server listens.
fn announce(service: Service, address: SocketAddr) -> Outcome {
    let mut output = std::io::stdout().lock();
    if service == Service::Conformance {
        let response = ServerCompatResponse { host: address.ip().to_string(), port: address.port().into() };
        let message = response.encode_to_vec();
        output.write_all(&(message.len() as u32).to_be_bytes())?;
        output.write_all(&message)?;
    } else {
        writeln!(output, "listening on {address}")?;
    }
    Ok(output.flush()?)
}
