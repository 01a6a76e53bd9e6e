//! A server that is replaced by its next process without losing a connection, and an admin port beside it.
//!
//! ```text
//! cargo run --release --example restart -- --listen 127.0.0.1:8080 --admin unix:restart.sock
//! curl --unix-socket restart.sock -X POST http://admin/restart
//! ```
//!
//! The listening socket goes to the next process, connections that wait in its queue with it. That one says that it
//! serves; then this one answers what it has begun, and ends. When the next one fails to start, this one goes on.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use plimsoll::Runtime;
use plimsoll::http::{Request, Response, Router, Server, ServerHandle, StatusCode};
use plimsoll::net::{self, Address, Inherited, Listener, SharedListener};
use plimsoll_examples::{RuntimeFlags, log_to_stderr, print_started, runtime_words};

/// A server that is replaced by its next process.
#[derive(Debug, Parser)]
#[command(name = "restart")]
struct Flags {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: Address,
    /// Where to be told to restart
    #[arg(long, value_name = "ADDR", default_value = "unix:restart.sock")]
    admin: Address,
    #[command(flatten)]
    runtime: RuntimeFlags,
}

fn main() -> ExitCode {
    plimsoll_examples::main(|flags: &Flags| {
        // First of all: nothing else has used the numbers of these descriptors.
        let inherited = net::inherited()?;
        flags.runtime.run(async |runtime| Ok(serve(flags, runtime, inherited).await?))
    })
}

async fn serve(flags: &Flags, runtime: &Runtime, inherited: Vec<Inherited>) -> plimsoll::Result<()> {
    // And not started by systemd, which does not wait for a word.
    let is_next = inherited.iter().any(|inherited| inherited.name == "admin");
    let (mut public, mut admin) = (None, None);
    for Inherited { name, listener } in inherited {
        *if name == "admin" { &mut admin } else { &mut public } = Some(Listener::join(listener)?);
    }
    let public = public.map_or_else(|| Listener::bind(flags.listen).map(Listener::share_queue), Ok)?;
    let admin = admin.map_or_else(|| Listener::bind(flags.admin).map(Listener::share_queue), Ok)?;
    let (at, process) = (public.local_addr(), std::process::id());
    let listeners = Arc::new([("public", public.share()?), ("admin", admin.share()?)]);

    let server = Server::from_listener(public);
    let control = Server::from_listener(admin);
    let handles = [server.handle(), control.handle()];
    let is_replaced = Arc::new(AtomicBool::new(false));
    let restart = Router::new().post("/restart", move |_: Request| {
        let (listeners, handles, is_replaced) = (Arc::clone(&listeners), handles.clone(), Arc::clone(&is_replaced));
        async move {
            if is_replaced.swap(true, Ordering::Relaxed) {
                return Response::new(StatusCode::CONFLICT).body(format!("process {process} is being replaced\n"));
            }
            match replace(&*listeners, handles, Arc::clone(&is_replaced)) {
                Ok(next) => Response::text(format!("process {next} takes over from {process}\n")),
                Err(error) => {
                    is_replaced.store(false, Ordering::Relaxed);
                    Response::new(StatusCode::INTERNAL_SERVER_ERROR).body(format!("{error}\n"))
                }
            }
        }
    });
    let controlling = plimsoll::spawn(control.serve(restart))?;
    let (words, more) = runtime_words(runtime);
    log_to_stderr();
    print_started(&format!("listening on {at} process={process}{words}{more}\n"), runtime);
    if is_next {
        say_that_it_serves();
    }
    server.serve(Router::new().get("/", move |_: Request| async move { format!("process {process}\n") })).await?;
    controlling.await.unwrap_or(Ok(()))
}

/// Starts the next process; when it serves, this one's servers stop. Its number.
fn replace(
    listeners: &[(&str, SharedListener)],
    handles: [ServerHandle; 2],
    is_replaced: Arc<AtomicBool>,
) -> Result<u32, Box<dyn std::error::Error>> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut next = Command::new(std::env::current_exe()?);
    next.args(std::env::args_os().skip(1)).stdin(OwnedFd::from(theirs));
    let shared = listeners.iter().map(|(name, listener)| Ok((*name, listener.try_clone()?)));
    let passed = net::pass_on(&mut next, shared.collect::<plimsoll::Result<Vec<_>>>()?)?;
    let child = next.spawn()?;
    let process = child.id();
    drop((passed, next));
    std::thread::spawn(move || match ours.read_exact(&mut [0]) {
        Ok(()) => handles.iter().for_each(ServerHandle::stop),
        Err(_) => {
            tracing::error!("process {process} ended before it served: this one goes on");
            is_replaced.store(false, Ordering::Relaxed);
        }
    });
    Ok(process)
}

/// Tells who has started this process: its standard input is a socket.
fn say_that_it_serves() {
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let told = socket.and_then(|socket| UnixStream::from(socket).write_all(b"!"));
    if let Err(error) = told {
        tracing::error!("the process before is not told that this one serves: {error}");
    }
}
