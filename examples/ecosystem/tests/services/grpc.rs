//! A service of tonic, tonic's own client, and grpcurl where it is installed.

use std::process::Command;

use futures_util::{StreamExt, stream};
use plimsoll_ecosystem::hello::greeter_client::GreeterClient;
use plimsoll_ecosystem::hello::{Greeting, Name, Times};
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ListServiceResponse, ServerReflectionRequest};

use crate::client;
use crate::process::{Running, installed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_grpc");

fn named(name: &str) -> Name {
    Name { name: name.to_owned() }
}

async fn texts(greetings: Streaming<Greeting>) -> Vec<String> {
    greetings.map(|greeting| greeting.expect("no failure").text).collect().await
}

#[test]
fn calls_streams_and_health() {
    let server = Running::start(PROGRAM, &[]);
    client(async {
        let channel = Channel::from_shared(server.url("")).expect("an address").connect().await.expect("it listens");
        let mut greeter = GreeterClient::new(channel.clone());
        assert_eq!(greeter.hello(named("you")).await.expect("an answer").get_ref().text, "hello you");
        let refused = greeter.hello(named("")).await.expect_err("nobody");
        assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "who is it?"));
        let counted = greeter.count(Times { times: 3 }).await.expect("an answer").into_inner();
        assert_eq!(texts(counted).await, ["hello 1", "hello 2", "hello 3"]);
        let chat = greeter.chat(stream::iter([named("a"), named("b")])).await.expect("an answer").into_inner();
        assert_eq!(texts(chat).await, ["hello a", "hello b"]);
        let mut slow = Request::new(Times { times: 1_000_000 });
        slow.set_timeout(std::time::Duration::from_millis(50));
        let late = greeter.count(slow).await.expect("it begins").into_inner().collect::<Vec<_>>().await;
        let end = late.last().expect("an end").as_ref().expect_err("a failure");
        assert!(matches!(end.code(), Code::DeadlineExceeded | Code::Cancelled), "{end:?}");
        let mut health = HealthClient::new(channel);
        let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
        let fit = health.check(ask("hello.Greeter")).await.expect("an answer");
        assert_eq!(fit.get_ref().status(), ServingStatus::Serving);
        assert_eq!(health.check(ask("other")).await.expect_err("unknown").code(), Code::NotFound);
    });
    server.stop();
}

/// What a server says of itself, by its reflection alone.
async fn reflect(
    client: &mut ServerReflectionClient<Channel>,
    asked: MessageRequest,
) -> Result<MessageResponse, Status> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(asked) };
    let mut answers = client.server_reflection_info(stream::iter([request])).await.expect("an answer").into_inner();
    let answer = answers.message().await?.expect("one");
    Ok(answer.message_response.expect("of some kind"))
}

#[test]
fn reflection_says_what_there_is() {
    let server = Running::start(PROGRAM, &[]);
    client(async {
        let channel = Channel::from_shared(server.url("")).expect("an address").connect().await.expect("it listens");
        let mut reflection = ServerReflectionClient::new(channel);
        let listed = reflect(&mut reflection, MessageRequest::ListServices(String::new())).await.expect("a list");
        let MessageResponse::ListServicesResponse(ListServiceResponse { service }) = listed else {
            panic!("{listed:?}")
        };
        let mut names: Vec<_> = service.into_iter().map(|service| service.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["grpc.reflection.v1.ServerReflection", "hello.Greeter"]);
        let wanted = MessageRequest::FileContainingSymbol("hello.Greeter".to_owned());
        let described = reflect(&mut reflection, wanted).await.expect("it is known");
        let MessageResponse::FileDescriptorResponse(files) = described else { panic!("{described:?}") };
        assert!(files.file_descriptor_proto.iter().any(|file| file.windows(7).any(|name| name == b"Greeter")));
        let unknown = reflect(&mut reflection, MessageRequest::FileContainingSymbol("no.Such".to_owned()));
        assert_eq!(unknown.await.expect_err("nobody has it").code(), Code::NotFound);
    });
    server.stop();
}

/// A client that knows nothing of the service beforehand.
#[test]
fn grpcurl_asks_what_there_is_and_calls_it() {
    let Some(program) = installed("grpcurl") else { return };
    let server = Running::start(PROGRAM, &[]);
    let grpcurl = |flags: &[&str], last: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["-plaintext", "-max-time", "20"]).args(flags).arg(server.address.to_string()).args(last);
        let done = command.output().expect("it runs");
        let (out, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{last:?}: {error}");
        out.into_owned()
    };
    assert!(grpcurl(&[], &["list"]).lines().any(|line| line == "hello.Greeter"));
    let described = grpcurl(&[], &["describe", "hello.Greeter"]);
    assert!(described.contains("rpc Hello") && described.contains("rpc Chat ( stream"), "{described}");
    let greeted = grpcurl(&["-d", r#"{"name":"you"}"#], &["hello.Greeter/Hello"]);
    assert!(greeted.contains(r#""text": "hello you""#), "{greeted}");
    let counted = grpcurl(&["-d", r#"{"times":3}"#], &["hello.Greeter/Count"]);
    assert!(["hello 1", "hello 2", "hello 3"].iter().all(|text| counted.contains(text)), "{counted}");
    server.stop();
}
