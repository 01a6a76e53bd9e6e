//! What is published, as those get it who depend on it: packed, unpacked, and built by a crate that is not of this
//! workspace; with `panic = "unwind"` and `"abort"`, and what a handler's panic does with each.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;
use super::steps::finish;
use crate::repo;
use crate::tidy::workspace::Workspace;

/// Packs everything that is published, and runs programs that know nothing but the packages.
pub(super) fn packages() -> Outcome {
    let workspace = match Workspace::load(&repo::root()) {
        Ok(workspace) => workspace,
        Err(error) => return Outcome::Failed(format!("cannot read the manifests: {error}")),
    };
    let names: Vec<&str> = workspace.published().map(|package| package.name.as_str()).collect();
    let dir = repo::target_dir().join("stranger");
    let _there_was_none = fs::remove_dir_all(dir.join("package"));
    let mut pack = repo::cargo();
    pack.args(["package", "--locked", "--no-verify", "--allow-dirty"]).env("CARGO_TARGET_DIR", &dir);
    names.iter().for_each(|name| _ = pack.args(["-p", name]));
    match finish(&mut pack) {
        Outcome::Passed => {}
        failed => return failed,
    }
    let crate_dir = dir.join("crate");
    if let Err(error) = write_stranger(&names, &dir.join("package"), &crate_dir) {
        return Outcome::Failed(error);
    }
    let built = dir.join("built");
    let run = |args: &[&str]| {
        let mut run = repo::cargo();
        run.args(["run", "--quiet"]).args(args).current_dir(&crate_dir).env("CARGO_TARGET_DIR", &built);
        // One of the panics is asked for.
        run.env("RUST_BACKTRACE", "0");
        run
    };
    for mut runs in [run(&[]), run(&["--", PANIC])] {
        match finish(&mut runs) {
            Outcome::Passed => {}
            failed => return failed,
        }
    }
    let mut build = repo::cargo();
    build.args(["build", "--quiet", "--profile", "aborting"]).current_dir(&crate_dir).env("CARGO_TARGET_DIR", &built);
    match finish(&mut build) {
        Outcome::Passed => aborts(&built.join("aborting/stranger")),
        failed => failed,
    }
}

/// Runs the program that was built with `panic = "abort"`, whose handler panics.
fn aborts(program: &Path) -> Outcome {
    match Command::new(program).arg(PANIC).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.signal() == Some(SIGABRT) => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("with panic = \"abort\" a handler's panic ended with {status}")),
        Err(error) => Outcome::Failed(format!("{} did not start: {error}", program.display())),
    }
}

/// `plimsoll-1.2.3.crate`, and not `plimsoll-http-1.2.3.crate`.
fn packed_file(name: &str, packed: &Path) -> Result<PathBuf, String> {
    let files = fs::read_dir(packed).map_err(|error| format!("{}: {error}", packed.display()))?;
    let is_of = |path: &Path| {
        let rest = path.file_name().and_then(|file| file.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        path.extension().is_some_and(|kind| kind == "crate")
            && rest.is_some_and(|rest| rest.starts_with(char::is_numeric))
    };
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    paths.find(|path| is_of(path)).ok_or_else(|| format!("{name} was not packed into {}", packed.display()))
}

/// Unpacks what was packed, and writes a crate that depends on it.
fn write_stranger(names: &[&str], packed: &Path, crate_dir: &Path) -> Result<(), String> {
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let _there_was_none = fs::remove_dir_all(crate_dir);
    let source = crate_dir.join("src");
    fs::create_dir_all(&source).map_err(|error| told(&source, error))?;
    let mut manifest = STRANGER_MANIFEST.to_owned();
    for name in names {
        let file = packed_file(name, packed)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let tar = Command::new("tar").arg("xzf").arg(&file).arg("-C").arg(crate_dir).status();
        if !tar.is_ok_and(|status| status.success()) {
            return Err(format!("cannot unpack {}", file.display()));
        }
        manifest += &format!("{name} = {{ path = \"{stem}\" }}\n");
    }
    let files = [("Cargo.toml", manifest.as_str()), ("src/main.rs", STRANGER_SOURCE)];
    for (name, text) in files {
        let path = crate_dir.join(name);
        fs::write(&path, text).map_err(|error| told(&path, error))?;
    }
    // The versions of other crates that are here already.
    let lock = repo::root().join("Cargo.lock");
    fs::copy(&lock, crate_dir.join("Cargo.lock")).map(drop).map_err(|error| told(&lock, error))
}

/// Has the program ask a handler that panics.
const PANIC: &str = "panic";
/// How a process ends that aborts.
const SIGABRT: i32 = 6;

const STRANGER_MANIFEST: &str = r#"[package]
name = "stranger"
version = "0.0.0"
edition = "2024"

[workspace]

[profile.aborting]
inherits = "dev"
panic = "abort"

[dependencies]
plimsoll = { version = "*", features = ["json", "deflate"] }
plimsoll-tower = "*"
serde = { version = "1", features = ["derive"] }

[patch.crates-io]
"#;

/// Asks a service of its own, in a simulated world.
const STRANGER_SOURCE: &str = r#"use plimsoll::http::layer::{CatchPanic, RequestId};
use plimsoll::http::{Error, Json, Request, Router, StatusCode, metrics};
use plimsoll::testing::Client;

#[derive(serde::Deserialize, serde::Serialize)]
struct User {
    name: String,
}

async fn create(mut req: Request) -> Result<(StatusCode, Json<User>), Error> {
    let user: User = req.json().await?;
    Ok((StatusCode::CREATED, Json(user)))
}

/// With `panic = "abort"` it does not return.
fn ask_for_a_panic() {
    let client = Client::new(Router::new().get("/", async |_: Request| -> &'static str { panic!("as it was asked") }));
    assert_eq!(client.get("/").send().status(), StatusCode::INTERNAL_SERVER_ERROR);
    client.finish();
}

fn main() {
    if std::env::args().nth(1).is_some_and(|asked| asked == "panic") {
        return ask_for_a_panic();
    }
    let routes = Router::new().post("/users", create).layer((RequestId::new(), CatchPanic));
    let client = Client::new(routes.get("/metrics", metrics::handler()));
    let answer = client.post("/users").json(&User { name: "ada".to_owned() }).send();
    assert_eq!((answer.status(), answer.json::<User>().name.as_str()), (StatusCode::CREATED, "ada"));
    assert!(client.get("/metrics").send().text().contains("plimsoll_requests_total"));
    client.finish();
    let options = plimsoll_tower::Options::default();
    assert!(options.peer_address);
}
"#;
