//! Services of tonic: one answer, streams both ways, and gRPC's own services of health and reflection.
//!
//! Their code is what `tonic-prost-build` makes of `proto/hello.proto`; tonic's `transport` is not needed.
//! Try `grpcurl -plaintext -d '{"name":"you"}' localhost:8080 hello.Greeter/Hello`: it asks what there is.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use clap::Parser;
use futures_util::{Stream, StreamExt, stream};
use plimsoll::OnWorker;
use plimsoll_ecosystem::hello::greeter_server::{Greeter, GreeterServer};
use plimsoll_ecosystem::hello::{DESCRIPTORS, Greeting, Name, Times};
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
}

struct Hello;

type Greetings = Pin<Box<dyn Stream<Item = Result<Greeting, Status>> + Send>>;

fn greet(name: &str) -> Greeting {
    Greeting { text: format!("hello {name}") }
}

/// A timer of the worker, in a form that tonic takes. The memory line may have no room for it.
async fn pause() -> Result<(), Status> {
    let timer = OnWorker::new(plimsoll::sleep(Duration::from_millis(5)));
    timer.map_err(|over| Status::resource_exhausted(over.to_string()))?.await;
    Ok(())
}

#[tonic::async_trait]
impl Greeter for Hello {
    async fn hello(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        match request.get_ref().name.as_str() {
            "" => Err(Status::invalid_argument("who is it?")),
            name => Ok(Response::new(greet(name))),
        }
    }

    type CountStream = Greetings;

    async fn count(&self, request: Request<Times>) -> Result<Response<Greetings>, Status> {
        let numbers = stream::iter(1..=request.get_ref().times);
        let greetings = numbers.then(async |number| pause().await.map(|()| greet(&number.to_string())));
        Ok(Response::new(greetings.boxed()))
    }

    type ChatStream = Greetings;

    async fn chat(&self, request: Request<Streaming<Name>>) -> Result<Response<Greetings>, Status> {
        let greetings = request.into_inner().map(|name| name.map(|name| greet(&name.name)));
        Ok(Response::new(greetings.boxed()))
    }
}

fn main() -> plimsoll_ecosystem::Result<()> {
    plimsoll_ecosystem::run(Flags::parse().listen, async || {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_serving::<GreeterServer<Hello>>().await;
        let described =
            tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTORS);
        let services = Routes::new(GreeterServer::new(Hello)).add_service(health);
        Ok(services.add_service(described.build_v1()?).prepare().into_axum_router())
    })
}
