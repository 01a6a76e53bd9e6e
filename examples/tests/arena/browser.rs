//! A real browser without a screen, driven through its remote debugging protocol: WebSocket and JSON, no other program.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::WAIT_MAX;
use crate::socket::Socket;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// A browser that runs. It is killed when the test is done with it.
pub(crate) struct Browser {
    child: Child,
    address: SocketAddr,
    profile: PathBuf,
}

impl Browser {
    /// Starts one; `None`, and a line that says so, where there is none.
    pub(crate) fn start() -> Option<Self> {
        let chosen = std::env::var_os("PLIMSOLL_BROWSER").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = || {
            std::env::split_paths(&path).flat_map(|dir| NAMES.map(|name| dir.join(name))).find(|path| path.is_file())
        };
        let Some(program) = chosen.or_else(installed) else {
            println!("skipped: no browser (install chromium, or name one in PLIMSOLL_BROWSER)");
            return None;
        };
        let profile = std::env::temp_dir().join(format!("plimsoll-browser-{}", std::process::id()));
        let mut command = Command::new(&program);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--remote-debugging-port=0", "about:blank"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        let mut child = match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                println!("skipped: the browser {} does not start: {error}", program.display());
                return None;
            }
        };
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("DevTools listening on ws://")?;
            rest.split('/').next()?.parse().ok()
        });
        let Some(address) = address else {
            let status = child.wait();
            println!("skipped: the browser {} has no remote debugging here ({status:?})", program.display());
            return None;
        };
        // What it has to say must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, address, profile })
    }

    /// Opens a page in a tab of its own.
    pub(crate) fn open(&self, url: &str) -> Page {
        let mut client = Client::connect(self.address);
        // It refuses to be spoken to by a name.
        client.send(format!("PUT /json/new?{url} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes());
        let answer = client.answer("PUT");
        let tab: Value = serde_json::from_str(answer.text()).unwrap_or_else(|_| panic!("a tab, not {answer:?}"));
        let target =
            tab["webSocketDebuggerUrl"].as_str().and_then(|url| url.strip_prefix("ws://")).expect("its address");
        let path = target.find('/').map(|at| &target[at..]).expect("a path");
        Page { socket: Socket::open(self.address, path), last: 0 }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _reaped = self.child.wait();
        let _gone = std::fs::remove_dir_all(&self.profile);
    }
}

pub(crate) struct Page {
    socket: Socket,
    last: u64,
}

impl Page {
    /// Calls a method of the browser's protocol.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        self.socket.send(&json!({ "id": self.last, "method": method, "params": params }).to_string());
        loop {
            let text = self.socket.next().expect("the browser answers");
            let answer: Value = serde_json::from_str(&text).expect("JSON");
            if answer["id"] == self.last {
                return answer["result"].clone();
            }
        }
    }

    /// What a script gives.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let result = self.call("Runtime.evaluate", &json!({ "expression": script, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until a script gives this.
    #[track_caller]
    pub(crate) fn until(&mut self, script: &str, expected: &str) {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let value = self.evaluate(script);
            if value == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{script} gives {value}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
