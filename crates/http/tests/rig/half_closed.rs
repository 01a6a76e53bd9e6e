//! A server for clients that end their half of the connection.

use core::time::Duration;

use plimsoll_http::{Body, Config, Error, HalfClose, Request, Response, StatusCode};
use plimsoll_runtime::{Result, sleep};

use super::drops::Drops;
use super::{Running, serve};

/// What `/whole`, `/length`, `/chunks` and `/pauses` are answered with, and `/later` at its end.
pub(crate) static LARGE: [u8; 3_000_000] = [b'x'; 3_000_000];

/// Large answers, one that is begun and not gone on with, some that come late, and a tunnel.
async fn answer(mut req: Request, drops: Drops) -> core::result::Result<Response, Error> {
    match req.path() {
        "/whole" => Ok(Response::new(StatusCode::OK).body(Body::Static(&LARGE))),
        path @ ("/length" | "/chunks" | "/pauses") => {
            let (length, pauses) = ((path == "/length").then_some(LARGE.len() as u64), path == "/pauses");
            let mut out = req.respond(Response::new(StatusCode::OK), length)?;
            for piece in LARGE.chunks(60_000) {
                if pauses {
                    sleep(Duration::from_millis(2)).await;
                }
                out.write_static(piece).await?;
            }
            out.finish().await
        }
        "/begun" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_static(b"begun").await?;
            sleep(Duration::from_secs(3_600)).await;
            out.finish().await
        }
        "/later" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_static(b"begun").await?;
            sleep(Duration::from_secs(1)).await;
            out.write_static(&LARGE).await?;
            out.finish().await
        }
        // Writes on and on, a little each time.
        "/ticks" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            loop {
                out.write_static(b"tick").await?;
                sleep(Duration::from_millis(3)).await;
            }
        }
        "/soon" => {
            sleep(Duration::from_millis(50)).await;
            Ok(Response::text("soon"))
        }
        "/body" => match req.collect().await {
            Ok(_) => Ok(Response::text("all of it")),
            Err(error) => {
                assert!(matches!(error, Error::Disconnected), "{error}");
                Ok(Response::new(StatusCode::BAD_REQUEST).body("a part of it"))
            }
        },
        "/tunnel" => req.accept_tunnel(Response::new(StatusCode::OK), |mut tunnel| async move {
            let _guard = drops.guard();
            while let Ok(Some(_)) = tunnel.recv().await {}
            assert!(matches!(tunnel.recv().await, Err(Error::Disconnected)));
            assert!(matches!(tunnel.send_static(b"more").await, Err(Error::Disconnected)));
        }),
        _ => {
            sleep(Duration::from_secs(3_600)).await;
            Ok::<_, Error>(Response::text("late"))
        }
    }
}

/// A server of them, with a guard for each handler and each tunnel.
pub(crate) fn server(half_close: HalfClose, drops: &Drops) -> Result<Running> {
    let drops = drops.clone();
    let config = Config { half_close, ..Config::default() };
    serve(config, move |req: Request| {
        let (guard, drops) = (drops.guard(), drops.clone());
        async move {
            let _guard = guard;
            answer(req, drops).await
        }
    })
}
