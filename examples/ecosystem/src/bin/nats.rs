//! Questions and answers by a NATS server, with async-nats and the context of tokio.
//!
//! Each process answers what is asked on `greet`; a request of HTTP asks there and gets what one of them has said. Try
//! `curl localhost:8080/greet/you`.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::time::Duration;

use async_nats::{Client, ConnectOptions};
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Router, http::StatusCode};
use clap::Parser;
use futures_util::StreamExt;
use plimsoll_ecosystem::Result;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where the NATS server listens.
    #[arg(long, default_value = "127.0.0.1:4222")]
    nats: SocketAddr,
}

/// Its sockets are driven by tokio's thread. What it keeps is bounded: commands that wait to be sent, and messages of a
/// subscription that wait to be read.
async fn connect(nats: SocketAddr) -> Result<Client> {
    let options = ConnectOptions::new().client_capacity(64).subscription_capacity(64);
    Ok(options.request_timeout(Some(Duration::from_secs(2))).connect(nats.to_string()).await?)
}

/// Answers what is asked, as one of a group of which each question reaches one.
async fn answer(nats: Client) -> Result<()> {
    let mut questions = nats.queue_subscribe("greet", "greeters".to_owned()).await?;
    // From here on the server knows of it.
    nats.flush().await?;
    plimsoll::spawn(async move {
        while let Some(question) = questions.next().await {
            let Some(reply) = question.reply else { continue };
            let text = format!("hello {}\n", String::from_utf8_lossy(&question.payload));
            if let Err(error) = nats.publish(reply, text.into()).await {
                tracing::error!(%error, "an answer was not sent");
            }
        }
    })?;
    Ok(())
}

async fn ask(State(nats): State<Client>, Path(name): Path<String>) -> Result<String, (StatusCode, String)> {
    match nats.request("greet", name.into()).await {
        Ok(answer) => Ok(String::from_utf8_lossy(&answer.payload).into_owned()),
        Err(error) => Err((StatusCode::BAD_GATEWAY, format!("NATS: {error}\n"))),
    }
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    plimsoll_ecosystem::run(flags.listen, async || {
        let nats = connect(flags.nats).await?;
        answer(nats.clone()).await?;
        Ok(Router::new().route("/greet/{name}", get(ask)).with_state(nats))
    })
}
