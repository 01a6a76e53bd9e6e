//! Notes in a PostgreSQL, by two crates: tokio-postgres on a stream of Plimsoll, and sqlx with the context of tokio.
//!
//! Try `curl -d 'buy bread' localhost:8080/notes` and `curl localhost:8080/notes`.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router, http::StatusCode};
use clap::Parser;
use plimsoll::net::TcpStream;
use plimsoll_ecosystem::Result;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio_postgres::NoTls;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where the PostgreSQL listens.
    #[arg(long, default_value = "127.0.0.1:5432")]
    postgres: SocketAddr,
    /// Who asks, and the database.
    #[arg(long, default_value = "postgres")]
    user: String,
}

/// Both may be asked on any worker.
#[derive(Clone)]
struct Notes {
    client: Arc<tokio_postgres::Client>,
    pool: sqlx::PgPool,
}

impl Notes {
    async fn open(flags: &Flags) -> Result<Self> {
        // The connection is a task of this worker: its bytes are read and written without tokio.
        let stream = TcpStream::connect(flags.postgres).await?;
        let mut config = tokio_postgres::Config::new();
        let (client, connection) = config.user(&flags.user).connect_raw(stream, NoTls).await?;
        plimsoll::spawn(async {
            if let Err(error) = connection.await {
                tracing::error!(%error, "the connection to PostgreSQL has failed");
            }
        })?;
        client.batch_execute("CREATE TABLE IF NOT EXISTS notes (id serial PRIMARY KEY, text text NOT NULL)").await?;
        // The sockets of sqlx are driven by tokio's thread. Its pool is bounded by its settings.
        let options = PgConnectOptions::new().host(&flags.postgres.ip().to_string()).port(flags.postgres.port());
        let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(5));
        let pool = pool.connect_with(options.username(&flags.user)).await?;
        Ok(Self { client: Arc::new(client), pool })
    }
}

fn failed(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::BAD_GATEWAY, format!("PostgreSQL: {error}\n"))
}

async fn add(State(notes): State<Notes>, text: String) -> Result<StatusCode, (StatusCode, String)> {
    let added = notes.client.execute("INSERT INTO notes (text) VALUES ($1)", &[&text]).await;
    added.map(|_| StatusCode::CREATED).map_err(failed)
}

async fn list(State(notes): State<Notes>) -> Result<Json<Vec<String>>, (StatusCode, String)> {
    let texts = sqlx::query_scalar("SELECT text FROM notes ORDER BY id LIMIT 100").fetch_all(&notes.pool);
    texts.await.map(Json).map_err(failed)
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    plimsoll_ecosystem::run(flags.listen, async || {
        Ok(Router::new().route("/notes", get(list).post(add)).with_state(Notes::open(&flags).await?))
    })
}
