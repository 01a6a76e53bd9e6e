//! Services beside a Redis and a PostgreSQL.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use reqwest::{Client, StatusCode};

use crate::client;
use crate::process::{Folder, Running, free_address, installed, refused, until};

/// PostgreSQL does not run as root: where the tests do, it runs as nobody.
const NOBODY: u32 = 65_534;

fn start_redis(folder: &Folder) -> Option<Running> {
    let (program, address) = (installed("redis-server")?, free_address());
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", "", "--dir"]);
    Some(Running::start_server(command.arg(folder.path()), address))
}

#[test]
fn redis_counts() {
    let folder = Folder::new("redis");
    let Some(redis) = start_redis(&folder) else { return };
    let server = Running::start(env!("CARGO_BIN_EXE_redis"), &["--redis", &redis.address.to_string()]);
    client(async {
        let client = Client::new();
        let count = || async {
            let answer = client.post(server.url("/count/apples")).send().await.expect("an answer");
            (answer.status(), answer.text().await.expect("whole"))
        };
        let counts = futures_util::future::join_all((0..50).map(|_| count())).await;
        let mut counts: Vec<u64> = counts.iter().map(|(_, text)| text.trim_end().parse().expect("a number")).collect();
        counts.sort_unstable();
        assert_eq!(counts, (1..=50).collect::<Vec<_>>());
        // One that stops is an error of each command that needs it, after the command's own time.
        redis.signal("STOP");
        let (status, text) = count().await;
        redis.signal("CONT");
        assert!(status == StatusCode::BAD_GATEWAY && text.starts_with("Redis: "), "{status} {text}");
    });
    server.stop();
}

/// What PostgreSQL is started with, as a user that it accepts.
fn postgres(program: &str, folder: &Folder) -> Option<Command> {
    let mut command = Command::new(installed(program)?);
    command.arg("-D").arg(folder.path()).current_dir(folder.path()).env("LC_ALL", "C");
    if std::fs::metadata("/proc/self").expect("linux").uid() == 0 {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
        command.uid(NOBODY).gid(NOBODY);
    }
    Some(command)
}

fn start_postgres(folder: &Folder) -> Option<Running> {
    let mut init = postgres("initdb", folder)?;
    let made = init.args(["-U", "postgres", "--auth", "trust", "--no-sync", "-E", "UTF8"]).output().expect("it starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let address = free_address();
    let mut command = postgres("postgres", folder)?;
    command.args(["-h", "127.0.0.1", "-p", &address.port().to_string(), "-k", "", "-c", "fsync=off"]);
    let postgres = Running::start_server(&mut command, address);
    // It takes connections a moment before it serves them, and says there when it does.
    let is_ready =
        || std::fs::read_to_string(folder.path().join("postmaster.pid")).unwrap_or_default().contains("ready");
    until("PostgreSQL is ready", is_ready);
    Some(postgres)
}

#[test]
fn notes_are_kept_in_postgres() {
    let folder = Folder::new("postgres");
    let Some(postgres) = start_postgres(&folder) else { return };
    let program = env!("CARGO_BIN_EXE_postgres");
    let server = Running::start(program, &["--postgres", &postgres.address.to_string()]);
    client(async {
        let client = Client::new();
        let texts: Vec<String> = (0..20).map(|number| format!("note {number}: Grüße, '; DROP")).collect();
        for text in &texts {
            let added = client.post(server.url("/notes")).body(text.clone()).send().await.expect("an answer");
            assert_eq!(added.status(), StatusCode::CREATED);
        }
        let lists = futures_util::future::join_all((0..20).map(|_| client.get(server.url("/notes")).send())).await;
        for list in lists {
            let list = list.expect("an answer").text().await.expect("whole");
            assert_eq!(serde_json::from_str::<Vec<String>>(&list).expect("a list"), texts);
        }
    });
    server.stop();
    let said = refused(program, &["--postgres", &postgres.address.to_string(), "--user", "nobody"]);
    assert!(said.contains("role \\\"nobody\\\" does not exist"), "{said}");
    let said = refused(program, &["--postgres", &free_address().to_string()]);
    assert!(said.contains("ECONNREFUSED") || said.contains("refused"), "{said}");
    postgres.signal("INT");
}
