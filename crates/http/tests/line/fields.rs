//! Answers whose fields find no room: they are put off and counted, whatever the handler says of them afterwards.

use plimsoll_http::{Config, Error, IntoResponse, Request, Response, Shed, StatusCode};
use plimsoll_runtime::{Kind, Lease, MemoryLimit, pool};

use crate::rig::frames::{Client, HEADERS};
use crate::rig::{in_simulation_under, serve, talk};

/// All that is left.
fn take_all() -> Vec<Lease> {
    let mut taken = Vec::new();
    for bytes in [64 * 1_024, 4_096, 1_024, 512, 256, 128, 64] {
        while let Ok(lease) = pool().try_acquire(bytes, Kind::Buffers) {
            taken.push(lease);
        }
    }
    taken
}

async fn answer(mut req: Request) -> Response {
    let value = "v".repeat(200);
    let taken = take_all();
    let answer = Response::new(StatusCode::OK).header("x-long", &value);
    let answer = answer.with_status(StatusCode::CREATED).body("made").header("cache-control", "max-age=9");
    let of_tuple = (StatusCode::CREATED, [("x-long", &value)], "made").into_response();
    drop(taken);
    match req.path() {
        "/whole" => answer,
        "/tuple" => of_tuple,
        "/streamed" => match req.respond(answer, None) {
            Err(error @ Error::OverBudget(_)) => error.into_response(),
            begun => panic!("it begins without its field: {begun:?}"),
        },
        "/inform" => match req.inform(answer).await {
            Err(error @ Error::OverBudget(_)) => error.into_response(),
            sent => panic!("it was sent without its field: {sent:?}"),
        },
        path => panic!("{path}"),
    }
}

#[test]
fn a_field_without_room_puts_the_answer_off() {
    in_simulation_under("fields without room", MemoryLimit::mib(4), async || {
        let server = serve(Config::default(), answer)?;
        let mut refused = 0;
        for (path, counted) in [("/whole", 1), ("/tuple", 1), ("/streamed", 0), ("/inform", 0)] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let answer = talk(server.address, &[request.as_bytes()], None).await?;
            assert!(answer.starts_with("HTTP/1.1 503 "), "{path}: {answer}");
            assert!(answer.contains("\r\nRetry-After: 1\r\n") && !answer.contains("max-age"), "{path}: {answer}");
            refused += counted;
            assert_eq!(server.counters.totals().shed_total[Shed::Output as usize], refused, "{path}");
        }
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&plimsoll_conformance::frames::get(1, "/whole")).await?;
        assert!(client.next_of(HEADERS).await?.has_status(503));
        drop(client);
        assert_eq!(server.counters.totals().shed_total[Shed::Output as usize], refused + 1);
        server.stop().await
    });
}
