//! A service of tonic and tonic's own client.

use futures_util::{StreamExt, stream};
use plimsoll_ecosystem::hello::greeter_client::GreeterClient;
use plimsoll_ecosystem::hello::{Greeting, Name, Times};
use tonic::transport::Channel;
use tonic::{Code, Request, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::client;
use crate::process::Running;

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
