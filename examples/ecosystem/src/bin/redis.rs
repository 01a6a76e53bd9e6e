//! Counters in a Redis: a connection of the redis crate on a stream of Plimsoll.
//!
//! Try `curl -X POST localhost:8080/count/apples`.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Router, http::StatusCode};
use clap::Parser;
use plimsoll::OnWorker;
use plimsoll::net::TcpStream;
use plimsoll_ecosystem::Result;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig, RedisConnectionInfo, RedisError};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where the Redis listens.
    #[arg(long, default_value = "127.0.0.1:6379")]
    redis: SocketAddr,
}

/// How long a command may take. The crate's own limit is a timer of tokio's context.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);
/// Commands that wait to be sent.
const COMMANDS_MAX: usize = 64;

/// A connection that every worker may use. The stream is one of this worker, where the task that drives it stays.
async fn connect(redis: SocketAddr) -> Result<MultiplexedConnection> {
    let stream = OnWorker::new(TcpStream::connect(redis).await?)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(COMMAND_TIMEOUT));
    let config = config.set_pipeline_buffer_size(COMMANDS_MAX);
    let info = RedisConnectionInfo::default();
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    plimsoll::spawn(driver)?;
    Ok(connection)
}

async fn count(
    State(mut redis): State<MultiplexedConnection>,
    Path(name): Path<String>,
) -> Result<String, (StatusCode, String)> {
    let failed = |error: RedisError| (StatusCode::BAD_GATEWAY, format!("Redis: {error}\n"));
    let count: u64 = redis.incr(name, 1).await.map_err(failed)?;
    Ok(format!("{count}\n"))
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    plimsoll_ecosystem::run(flags.listen, async || {
        Ok(Router::new().route("/count/{name}", post(count)).with_state(connect(flags.redis).await?))
    })
}
