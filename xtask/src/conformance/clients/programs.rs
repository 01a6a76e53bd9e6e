//! The clients: in which language they are, how their programs are installed, and how one is run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::bed::Via;
use super::report::Run;
use crate::repo;

/// What the table calls it, and what its program calls it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) language: Language,
    argument: &'static str,
    pub(super) protocol: Protocol,
}

/// What a client speaks to the first who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1, WebSocket included.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

const fn client(name: &'static str, language: Language, argument: &'static str, protocol: Protocol) -> Client {
    Client { name, language, argument, protocol }
}

/// In the order of the table.
pub(super) const CLIENTS: [Client; 17] = [
    client("curl-h1", Language::Curl, "h1", Protocol::Http1),
    client("curl-h2", Language::Curl, "h2", Protocol::Http2),
    client("go-net-http-h1", Language::Go, "net-http-h1", Protocol::Http1),
    client("go-net-http-h2", Language::Go, "net-http-h2", Protocol::Http2),
    client("go-x-net-http2", Language::Go, "x-net-http2", Protocol::Http2),
    client("python-httpx-h1", Language::Python, "httpx-h1", Protocol::Http1),
    client("python-httpx-h2", Language::Python, "httpx-h2", Protocol::Http2),
    client("python-aiohttp", Language::Python, "aiohttp", Protocol::Http1),
    client("python-urllib3", Language::Python, "urllib3", Protocol::Http1),
    client("python-websockets", Language::Python, "websockets", Protocol::Http1),
    client("node-http", Language::Node, "http", Protocol::Http1),
    client("node-http2", Language::Node, "http2", Protocol::Http2),
    client("node-http2-small", Language::Node, "http2-small", Protocol::Http2),
    client("node-undici", Language::Node, "undici", Protocol::Http1),
    client("node-ws", Language::Node, "ws", Protocol::Http1),
    client("java-http-client", Language::Java, "http-client", Protocol::Http1),
    client("java-web-socket", Language::Java, "web-socket", Protocol::Http1),
];

/// Those whose names begin as one that is given, or all. The error names what is unknown.
pub(super) fn chosen(names: &[String]) -> Result<Vec<&'static Client>, String> {
    static ALL: [Client; 17] = CLIENTS;
    if let Some(unknown) = names.iter().find(|name| !ALL.iter().any(|client| client.name.starts_with(name.as_str()))) {
        let known = ALL.each_ref().map(|client| client.name).join(", ");
        return Err(format!(
            "no client `{unknown}`; there are {known}; the beginning of a name stands for all that begin so"
        ));
    }
    let is_chosen =
        |client: &&Client| names.is_empty() || names.iter().any(|name| client.name.starts_with(name.as_str()));
    Ok(ALL.iter().filter(is_chosen).collect())
}

/// A language has one program, which knows all clients in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Curl,
    Go,
    Python,
    Node,
    Java,
}

impl Language {
    pub(super) const ALL: [Language; 5] =
        [Language::Curl, Language::Go, Language::Python, Language::Node, Language::Java];

    const fn name(self) -> &'static str {
        match self {
            Language::Curl => "curl",
            Language::Go => "go",
            Language::Python => "python",
            Language::Node => "node",
            Language::Java => "java",
        }
    }

    /// What to install, if a program is not there that this language needs.
    fn missing(self) -> Option<&'static str> {
        let (programs, install): (&[&[&str]], &str) = match self {
            Language::Curl => (&[&["bash", "--version"], &["curl", "--version"]], "curl: apt-get install curl"),
            Language::Go => (&[&["go", "version"]], "Go's clients: install Go 1.25 or newer from https://go.dev/dl"),
            Language::Python => (
                &[&["python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"]],
                "Python's clients: apt-get install python3 python3-venv (3.11 or newer)",
            ),
            Language::Node => (
                &[&["node", "--version"], &["npm", "--version"]],
                "node's clients: apt-get install nodejs npm (node 20 or newer)",
            ),
            Language::Java => (
                &[&["javac", "--version"], &["java", "--version"]],
                "Java's clients: apt-get install default-jdk-headless (17 or newer)",
            ),
        };
        let all = programs.iter().all(|words| succeeds_quietly(Command::new(words[0]).args(&words[1..])));
        (!all).then_some(install)
    }

    /// Installs what the program needs, if that is not there. The inner error says what is missing, the outer one that
    /// our program does not build.
    pub(super) fn prepare(self) -> Result<Result<Program, String>, String> {
        if let Some(install) = self.missing() {
            return Ok(Err(install.to_owned()));
        }
        let sources = repo::root().join("conformance/clients").join(self.name());
        let dir = repo::target_dir().join("conformance/clients").join(self.name());
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::create_dir_all(&dir).map_err(failed)?;
        let built = |words: &[&Path]| Program { language: self, words: words.iter().map(|word| word.into()).collect() };
        let log = dir.join("log");
        let installed = |command: &mut Command| {
            let why = run_logged(command, &log);
            why.err().map(|why| {
                format!("the {} clients, which were not installed: {why}; see {}", self.name(), log.display())
            })
        };
        let program = match self {
            Language::Curl => built(&[Path::new("bash"), &sources.join("clients.sh")]),
            Language::Go => {
                let go = |verb: &[&str]| {
                    let mut go = Command::new("go");
                    go.args(verb)
                        .current_dir(&sources)
                        .env("GOTOOLCHAIN", "local")
                        .env("GOFLAGS", "-mod=readonly -buildvcs=false");
                    go
                };
                if let Some(why) = installed(&mut go(&["mod", "download"])) {
                    return Ok(Err(why));
                }
                let program = dir.join("clients");
                run_logged(go(&["build", "-o"]).arg(&program).arg("."), &log)
                    .map_err(|why| format!("{why}; see {}", log.display()))?;
                built(&[&program])
            }
            Language::Python => {
                let python = dir.join("venv/bin/python");
                let wanted = sources.join("requirements.txt");
                let is_new = install_once(&wanted, &dir.join("requirements.txt"), || {
                    let made = installed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(dir.join("venv")));
                    let mut pip = Command::new(&python);
                    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "--requirement"]).arg(&wanted);
                    made.or_else(|| installed(&mut pip))
                });
                if let Some(why) = is_new {
                    return Ok(Err(why));
                }
                built(&[&python, &sources.join("clients.py")])
            }
            Language::Node => {
                // A module is looked for beside the program.
                for entry in fs::read_dir(&sources).map_err(failed)?.flatten() {
                    if entry.path().is_file() && entry.file_name() != LOCK {
                        fs::copy(entry.path(), dir.join(entry.file_name())).map_err(failed)?;
                    }
                }
                let wanted = sources.join(LOCK);
                let is_new = install_once(&wanted, &dir.join("installed.json"), || {
                    let copied = fs::copy(&wanted, dir.join(LOCK)).err().map(|error| format!("{LOCK}: {error}"));
                    let mut npm = Command::new("npm");
                    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&dir);
                    copied.or_else(|| installed(&mut npm))
                });
                if let Some(why) = is_new {
                    return Ok(Err(why));
                }
                built(&[Path::new("node"), &dir.join("clients.mjs")])
            }
            Language::Java => {
                let sources = fs::read_dir(&sources).map_err(failed)?.flatten().map(|entry| entry.path());
                let sources: Vec<PathBuf> =
                    sources.filter(|path| path.extension().is_some_and(|end| end == "java")).collect();
                run_logged(Command::new("javac").arg("-d").arg(&dir).args(sources), &log)
                    .map_err(|why| format!("{why}; see {}", log.display()))?;
                let flags = [
                    "java",
                    "-XX:TieredStopAtLevel=1",
                    "-XX:+UseSerialGC",
                    "-Djdk.httpclient.allowRestrictedHeaders=host",
                    "-cp",
                ];
                let mut words: Vec<&Path> = flags.iter().map(Path::new).collect();
                words.extend([dir.as_path(), Path::new("Clients")]);
                built(&words)
            }
        };
        Ok(Ok(program))
    }
}

/// Installs what a file lists, unless that was done before. Says why it failed.
fn install_once(wanted: &Path, done: &Path, install: impl FnOnce() -> Option<String>) -> Option<String> {
    let list = fs::read(wanted).ok();
    if list.is_some() && list == fs::read(done).ok() {
        return None;
    }
    install().or_else(|| fs::copy(wanted, done).err().map(|error| format!("{}: {error}", wanted.display())))
}

/// Runs a command whose output is for the curious.
fn run_logged(command: &mut Command, log: &Path) -> Result<(), String> {
    let shown = format!("`{}`", Path::new(command.get_program()).display());
    let output = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
    let (stdout, stderr) = output.map_err(|error| format!("{}: {error}", log.display()))?;
    match command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} ended with {status}")),
        Err(error) => Err(format!("{shown} did not start: {error}")),
    }
}

fn succeeds_quietly(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A program that can be run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) language: Language,
    words: Vec<PathBuf>,
}

impl Program {
    /// Runs one of its clients.
    pub(super) fn run(&self, client: &Client, base: &str, via: Via, driver: &str) -> Run {
        let dir = repo::target_dir().join("conformance/clients/logs");
        let logs = ["out", "err"].map(|end| dir.join(format!("{}.{}.{driver}.{end}", client.name, via.name())));
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["--client", client.argument, "--base", base, "--via", via.name()]);
        let ended = fs::create_dir_all(&dir).and_then(|()| {
            command.stdin(Stdio::null()).stdout(File::create(&logs[0])?).stderr(File::create(&logs[1])?);
            // Of the environment, only what a proxy of the user's could spoil.
            for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
                command.env_remove(name);
            }
            // Nothing is written beside the sources.
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            finish(&mut command)
        });
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let ended = match ended {
            Ok(Some(status)) if status.code().is_some() => Ok(()),
            Ok(Some(status)) => Err(format!("ended with {status}")),
            Ok(None) => Err(format!("did not end in {} s", RUN_TIMEOUT.as_secs())),
            Err(error) => Err(error.to_string()),
        };
        Run::new(&text(&logs[0]), &text(&logs[1]), ended)
    }
}

/// Waits until it ends, for as long as it may take.
fn finish(command: &mut Command) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let deadline = Instant::now() + RUN_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

const LOCK: &str = "package-lock.json";
/// Far longer than any of them takes.
const RUN_TIMEOUT: Duration = Duration::from_secs(180);
