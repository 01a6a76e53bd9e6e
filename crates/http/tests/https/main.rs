//! HTTP over TLS: the protocols and what leaves them, beside plain listeners, and clients of other makers.

#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a client that is not there is left out, and said so")]

mod attacks;
mod crowds;
mod ends;
mod names;
mod peers;
mod proxied;
#[path = "../rig/mod.rs"]
mod rig;

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;
use std::process::{Command, Output};

use plimsoll_http::tls::{Connector, PARKED_BYTES_MAX, TlsConfig, info, nonces};
use plimsoll_http::{Config, Request, Response, Server, Upgraded};
use plimsoll_runtime::net::{Stream, TcpStream};
use plimsoll_runtime::{MemoryLimit, Result, Runtime, Spawner, budget, sleep, spawn, spawn_blocking, timeout};

/// Files of a certificate for localhost, and the directory that goes with them.
struct Files {
    dir: PathBuf,
    pem: String,
}

impl Files {
    fn new(name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
        let dir = std::env::temp_dir().join(format!("plimsoll-https-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let pem = made.cert.pem();
        std::fs::write(dir.join("cert.pem"), &pem).expect("written");
        std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
        Self { dir, pem }
    }

    fn config(&self, is_compact: bool) -> TlsConfig {
        let builder = TlsConfig::builder().certificate_files(self.dir.join("cert.pem"), self.dir.join("key.pem"));
        builder.compact(is_compact).build().expect("good files")
    }

    fn client(&self, alpn: &[u8]) -> Connector {
        Connector::builder().roots_pem(&self.pem).alpn([alpn]).build().expect("a root")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.dir);
    }
}

async fn answer(mut req: Request) -> core::result::Result<Response, plimsoll_http::Error> {
    match req.path() {
        "/tls" => Ok(Response::text(req.tls().map_or("none".into(), |tls| format!("{:?}", tls.version)))),
        "/charged" => Ok(Response::text(format!("{} bytes", budget().charged()))),
        "/count" => {
            let mut count = 0;
            while let Some(chunk) = req.chunk().await? {
                count += chunk.len();
            }
            Ok(Response::text(count.to_string()))
        }
        "/large" => Ok(Response::text("x".repeat(300_000))),
        "/up" => req.upgrade("echo/1", |mut peer: Upgraded| async move {
            while let Ok(Some(lease)) = peer.recv().await {
                if peer.send_all(lease).await.is_err() {
                    return;
                }
            }
            let _gone = peer.shutdown_write().await;
        }),
        path => Ok(Response::text(path.to_owned())),
    }
}

/// The plain address and that of TLS: with sessions as they are, and with compact ones.
fn run(name: &str, scenario: impl AsyncFn(&Files, SocketAddr, SocketAddr) -> Result<()>) {
    for is_compact in [false, true] {
        run_one(name, is_compact, &scenario);
    }
}

fn run_one(name: &str, is_compact: bool, scenario: impl AsyncFn(&Files, SocketAddr, SocketAddr) -> Result<()>) {
    let files = Files::new(name);
    // Every record that the server seals.
    let watch = nonces::watch();
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).build().expect("it starts");
    let ended: Result<()> = runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0")?.also_bind("127.0.0.1:0")?.tls(&files.config(is_compact));
        let server = server.config(Config { head_timeout: Duration::from_millis(500), ..Config::default() });
        let addresses: Vec<_> = server.local_addresses().map(|address| address.ip().expect("TCP")).collect();
        let serving = spawn(server.serve(answer))?;
        let scenario = scenario(&files, addresses[0], addresses[1]);
        timeout(Duration::from_secs(100), scenario).await??;
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
    ended.expect("no call fails");
    assert!(is_compact || watch.count() == 0, "records of rustls are its own");
}

async fn open(files: &Files, address: SocketAddr, alpn: &[u8]) -> Result<Stream> {
    files.client(alpn).connect("localhost", TcpStream::connect(address).await?).await
}

async fn read(stream: &mut Stream, enough: &[u8]) -> Result<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(enough.len().max(1)).any(|window| window == enough) {
        let Some(lease) = stream.recv().await? else { break };
        bytes.extend_from_slice(&lease);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn requests_pipelines_and_upgrades_are_answered() {
    run("requests", async |files, plain, secured| {
        let mut client = open(files, secured, b"http/1.1").await?;
        assert_eq!(info(&client).expect("TLS").alpn.as_deref(), Some(&b"http/1.1"[..]));
        client.send_static(b"GET /tls HTTP/1.1\r\nHost: h\r\n\r\nGET /two HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let both = read(&mut client, b"/two").await?;
        assert!(both.contains("Some(Tls13)") && both.matches("HTTP/1.1 200 OK").count() == 2, "{both}");
        // More than a lease takes.
        let body = "y".repeat(2_000_000);
        client
            .send_bytes(format!("POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000\r\n\r\n{body}").as_bytes())
            .await?;
        assert!(read(&mut client, b"2000000").await?.starts_with("HTTP/1.1 200 "));
        client
            .send_static(b"GET /up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\nearly")
            .await?;
        let upgraded = read(&mut client, b"early").await?;
        assert!(upgraded.starts_with("HTTP/1.1 101 "), "{upgraded}");
        client.shutdown_write().await?;
        assert!(client.recv().await?.is_none(), "close_notify");
        let mut client = TcpStream::connect(plain).await?.into_any();
        client.send_static(b"GET /tls HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
        assert!(read(&mut client, b"none").await?.starts_with("HTTP/1.1 200 "), "the plain one is as it was");
        Ok(())
    });
}

#[test]
fn the_wrong_protocol_hears_400() {
    run("wrong", async |files, plain, secured| {
        let mut client = TcpStream::connect(secured).await?.into_any();
        client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let said = read(&mut client, b"\0").await.unwrap_or_default();
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("ask for https"), "{said}");
        let mut client = open(files, secured, b"h2").await?;
        client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert!(read(&mut client, b"\0").await.unwrap_or_default().is_empty(), "HTTP/2 was agreed on");
        let refused = open(files, plain, b"http/1.1").await;
        assert!(refused.is_err(), "{refused:?}");
        let mut client = TcpStream::connect(plain).await?.into_any();
        client.send_static(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await?;
        sleep(Duration::from_millis(20)).await;
        client.shutdown_write().await?;
        let said = read(&mut client, b"\0").await.unwrap_or_default();
        assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
        Ok(())
    });
}

#[test]
fn a_handshake_has_the_time_of_a_head_and_a_parked_session_more() {
    run("times", async |files, _, secured| {
        let mut silent = TcpStream::connect(secured).await?;
        let mut idle = open(files, secured, b"http/1.1").await?;
        sleep(Duration::from_millis(700)).await;
        assert!(!matches!(timeout(Duration::from_millis(700), silent.recv()).await, Ok(Ok(Some(_))) | Err(_)));
        idle.send_static(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert!(read(&mut idle, b"/late").await?.starts_with("HTTP/1.1 200 "));
        Ok(())
    });
}

#[test]
fn a_parked_session_holds_its_state_alone() {
    run("parked", async |files, _, secured| {
        const SESSIONS: u64 = 32;
        let mut open_ones = Vec::new();
        let mut before = 0;
        for at in 0..SESSIONS + 8 {
            if at == 8 {
                before = budget().charged();
            }
            let mut client = open(files, secured, b"http/1.1").await?;
            client.send_static(b"GET /one HTTP/1.1\r\nHost: h\r\n\r\n").await?;
            read(&mut client, b"/one").await?;
            open_ones.push(client);
        }
        // Both ends are here: the client's box and state, too.
        let each = (budget().charged() - before) / SESSIONS;
        eprintln!("{each} bytes are charged for both ends of a parked session");
        assert!(each <= 2 * (PARKED_BYTES_MAX + 1_024), "{each}");
        Ok(())
    });
}

fn output(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {command:?}: {error}");
            None
        }
    }
}

#[test]
fn clients_of_other_makers_are_served() {
    run("clients", async |files, _, secured| {
        let (dir, port) = (files.dir.clone(), secured.port());
        let asked = spawn_blocking(move || {
            let cert = dir.join("cert.pem");
            let url = |path: &str| format!("https://localhost:{port}{path}");
            for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
                let mut curl = Command::new("curl");
                curl.args(["-s", flag, "--resolve", &format!("localhost:{port}:127.0.0.1"), "--cacert"]).arg(&cert);
                curl.args([
                    "-w",
                    " %{http_version} %{http_code} %{size_download}",
                    "-o",
                    "-",
                    &url("/large"),
                    &url("/tls"),
                ]);
                let Some(done) = output(&mut curl) else { break };
                let said = String::from_utf8_lossy(&done.stdout).into_owned();
                assert!(said.contains(&format!(" {version} 200 300000")), "{said:.200}");
                assert!(said.ends_with(&format!("Some(Tls13) {version} 200 11")), "{:?}", done.stderr);
            }
            for (flag, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
                let script = format!(
                    "printf 'GET /tls HTTP/1.0\\r\\n\\r\\n' | openssl s_client -connect 127.0.0.1:{port} {flag} -ign_eof -CAfile {}",
                    cert.display()
                );
                let Some(done) = output(Command::new("sh").args(["-c", &script])) else { break };
                let said = String::from_utf8_lossy(&done.stdout).into_owned();
                assert!(said.contains(name) && said.contains("200 OK") && said.contains("return code: 0 "), "{said}");
            }
            let script = format!(
                "import ssl,http.client\nc=ssl.create_default_context(cafile={:?})\n\
                h=http.client.HTTPSConnection('localhost',{port},context=c)\n\
                for i in range(3):\n h.request('POST','/count',b'z'*70000)\n r=h.getresponse()\n assert r.read()==b'70000', r.status\n\
                print('python ok')",
                cert.display().to_string()
            );
            if let Some(done) = output(Command::new("python3").args(["-c", &script])) {
                assert!(done.stdout.starts_with(b"python ok"), "{}", String::from_utf8_lossy(&done.stderr));
            }
            let script = format!(
                "const fs=require('fs'),https=require('https');https.get({{host:'127.0.0.1',port:{port},path:'/large',\
                ca:fs.readFileSync({:?})}},r=>{{let n=0;r.on('data',d=>n+=d.length);r.on('end',()=>console.log(r.statusCode,n))}})",
                cert.display().to_string()
            );
            if let Some(done) = output(Command::new("node").args(["-e", &script])) {
                assert_eq!(
                    String::from_utf8_lossy(&done.stdout),
                    "200 300000\n",
                    "{:?}",
                    String::from_utf8_lossy(&done.stderr)
                );
            }
        });
        asked.await.expect("no client fails");
        Ok(())
    });
}
