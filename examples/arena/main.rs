//! The benchmark server: every route that load generators ask for, under a memory line that it reports on when it ends.
//!
//! ```text
//! cargo run --release --example arena -- --listen 127.0.0.1:8080 --memory 64MiB
//! ```

mod container;
mod flags;
mod items;
mod legend;
mod metrics;
mod routes;
mod secured;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use plimsoll::Runtime;
use plimsoll::http::tls::TlsConfig;
use plimsoll::http::{AccessLog, Counters, Server};
use plimsoll_examples::{finish, log_to_stderr, print, print_started, runtime_words, say_if_lowered};

use crate::flags::Flags;

/// What the routes share: cheap to clone for every request.
#[derive(Clone)]
struct State {
    counters: Counters,
    log: Option<Arc<AccessLog>>,
}

fn main() -> ExitCode {
    plimsoll_examples::main(run)
}

fn run(flags: &Flags) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let runtime = flags.runtime.build()?;
    if flags.plan {
        say_if_lowered(&runtime);
        let plan = plimsoll::http::plan(&runtime, routes::ANSWER_BYTES);
        let _closed = std::io::stderr().write_all(legend::of(&plan).as_bytes());
        print(&plan.to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let log = match &flags.access_log {
        Some(path) => {
            let log = AccessLog::open(path, runtime.budget());
            let log = log.map_err(|error| format!("cannot write the access log {}: {error}", path.display()))?;
            Some(Arc::new(log))
        }
        None => None,
    };
    let tls = flags.tls.zip(flags.tls_config()?);
    let served = runtime.block_on(serve(flags, &runtime, log.clone(), tls));
    let lost_lines = log.map_or(0, |log| log.close());
    let report = runtime.shutdown();
    served?;
    if lost_lines > 0 {
        let _closed = writeln!(std::io::stderr(), "access log: {lost_lines} lines were lost");
    }
    Ok(finish(&report))
}

/// Serves until a signal asks for the stop and what runs has finished.
async fn serve(
    flags: &Flags,
    runtime: &Runtime,
    log: Option<Arc<AccessLog>>,
    tls: Option<(SocketAddr, TlsConfig)>,
) -> plimsoll::Result<()> {
    let mut server = Server::bind(flags.listen)?.config(flags.config());
    if let Some((address, config)) = &tls {
        server = server.also_bind(*address)?.tls(config);
    }
    if let Some(log) = log.clone() {
        server = server.access_log(move |record| log.write(record));
    }
    let h2c = match flags.h2c {
        Some(address) => Some(Server::bind(address)?.http2_only().count_with(server.counters())),
        None => None,
    };
    let h2c = h2c.map(|server| match log.clone() {
        Some(log) => server.access_log(move |record| log.write(record)),
        None => server,
    });
    let state = State { counters: server.counters(), log };
    items::load();
    let (words, more) = runtime_words(runtime);
    log_to_stderr();
    let h2c_word = h2c.as_ref().map(|server| format!(" h2c={}", server.local_addr())).unwrap_or_default();
    let tls_word =
        tls.as_ref().and_then(|_| server.local_addresses().nth(1)).map(|at| format!(" tls={at}")).unwrap_or_default();
    print_started(&format!("listening on http://{}{words}{h2c_word}{tls_word}{more}\n", server.local_addr()), runtime);
    if let Some((_, config)) = &tls {
        drop(plimsoll::spawn(secured::follow(config.clone(), plimsoll::signal::hangups()?))?);
    }
    drop(plimsoll::spawn(container::follow(flags.runtime.memory()))?);
    let h2c = match h2c {
        Some(server) => {
            let state = state.clone();
            Some(plimsoll::spawn(server.serve(move |request| routes::answer(request, state.clone())))?)
        }
        None => None,
    };
    let served = server.serve(move |request| routes::answer(request, state.clone())).await;
    if let Some(h2c) = h2c {
        h2c.await.expect("a server does not panic")?;
    }
    served
}
