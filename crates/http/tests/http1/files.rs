//! Files as answers, on both protocols: which are served, what of them, and what becomes of an answer midway.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::Path;

use plimsoll_http::layer::{Next, from_fn};
use plimsoll_http::{Config, Request, Router, ServeDir, ServeFile, Server, Shed};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{JoinHandle, Kind, MemoryLimit, Result, Spawner, fs, pool, sleep, spawn};

use crate::rig::frames::{Client, HEADERS};
use crate::rig::{
    Directory, fresh_directory, in_simulation_under, is_simulated, on_each_with_files, place_file, read, talk, until,
};

/// Longer than a buffer, and none of its pieces is like another.
fn big() -> Vec<u8> {
    (0..300_000_u32).flat_map(|number| number.to_le_bytes()[..3].to_vec()).collect()
}

fn serve(routes: Router, config: Config) -> Result<(SocketAddr, JoinHandle<Result<()>>)> {
    let server = Server::bind("127.0.0.1:0")?.config(config);
    Ok((server.local_addr(), spawn(server.serve(routes))?))
}

async fn stop(serving: JoinHandle<Result<()>>) -> Result<()> {
    Spawner::current().stop();
    serving.await.expect("no panic")
}

async fn ask(address: SocketAddr, line: &str, fields: &str) -> String {
    let request = format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    talk(address, &[request.as_bytes()], None).await.expect("an answer")
}

/// The value of a field of an answer.
fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let lines = answer.split("\r\n").take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_once(": ")).find(|(other, _)| *other == name).map(|(_, value)| value)
}

fn has(answer: &str, status: u16, body: &str) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with(&format!("\r\n\r\n{body}"))
}

fn place_all(name: &str) -> Directory {
    let dir = fresh_directory(name);
    for (path, bytes) in [
        ("a.txt", &b"0123456789"[..]),
        ("empty.css", b""),
        ("with space.JS", b"x"),
        ("sub/index.html", b"<p>"),
        ("bare/x", b"x"),
        (".hidden", b"secret"),
        (".git/config", b"secret"),
        ("odd.html/x", b"x"),
    ] {
        place_file(&dir.join(path), bytes);
    }
    place_file(&dir.join("big.bin"), &big());
    dir
}

#[test]
fn files_are_found_below_their_directory_alone() {
    on_each_with_files("files by path", async || {
        let dir = place_all("paths");
        // Beside the directory, under a name that begins like its own.
        let above = fresh_directory("paths-outside");
        place_file(&above.join("x"), b"secret");
        let outside = format!("{}/x", above.file_name().expect("it has one").display());
        let nested = Router::new().files("/nested/", &*dir);
        let routes = Router::new()
            .get("/f/own", async |_req: Request| "a route")
            .files("/f", &*dir)
            .nest("/api/{tenant}", nested)
            .get("/one", ServeFile::new(dir.join("a.txt")))
            .get("/none", ServeFile::new(dir.join("none")))
            .get("/dir", ServeFile::new(dir.join("sub")))
            .fallback(ServeDir::new(dir.join("sub")).fallback(ServeFile::new(dir.join("sub/index.html"))));
        let (address, serving) = serve(routes, Config::default())?;
        let climb = format!("GET /f/../{outside}");
        let encoded = format!("GET /f/%2e%2e/{outside}");
        let slashed = format!("GET /f/..%2f{outside}");
        for (line, status, body) in [
            ("GET /f/a.txt", 200, "0123456789"),
            ("GET /f/a%2Etxt?query", 200, "0123456789"),
            ("HEAD /f/a.txt", 200, ""),
            ("GET /f/empty.css", 200, ""),
            ("GET /f/with%20space.JS", 200, "x"),
            ("GET /f/own", 200, "a route"),
            ("GET /f/sub/", 200, "<p>"),
            ("GET /f/sub", 307, ""),
            ("GET /f", 307, ""),
            ("GET /api/7/nested/a.txt", 200, "0123456789"),
            ("GET /api/7/nested/sub/", 200, "<p>"),
            ("GET /one", 200, "0123456789"),
            ("GET /elsewhere/deep", 200, "<p>"),
            ("GET /", 200, "<p>"),
            ("GET /f/none", 404, ""),
            ("GET /f/", 404, ""),
            ("GET /f/bare/", 404, ""),
            ("GET /f/odd.html/", 404, ""),
            ("GET /f/a.txt/", 404, ""),
            ("GET /f/a.txt/x", 404, ""),
            ("GET /f/sub//index.html", 404, ""),
            ("GET /f/.hidden", 404, ""),
            ("GET /f/%2ehidden", 404, ""),
            ("GET /f/.git/config", 404, ""),
            ("GET /f/sub/../a.txt", 404, ""),
            ("GET /f/sub/./index.html", 404, ""),
            ("GET /f/a.txt%00", 404, ""),
            ("GET /f/sub%2findex.html", 404, ""),
            ("GET /f/%2fetc%2fpasswd", 404, ""),
            ("GET /f//etc/passwd", 404, ""),
            (&climb, 404, ""),
            (&encoded, 404, ""),
            (&slashed, 404, ""),
            ("GET /none", 404, ""),
            ("GET /dir", 404, ""),
            ("POST /f/a.txt", 405, ""),
            ("POST /elsewhere", 405, ""),
        ] {
            let answer = ask(address, line, "").await;
            let is_refusal = status >= 400 && answer.starts_with(&format!("HTTP/1.1 {status} "));
            assert!(is_refusal || has(&answer, status, body), "{line}: {answer}");
            assert!(!answer.contains("secret"), "{line}: {answer}");
        }
        let long = format!("GET /f/{}", "n".repeat(300));
        assert!(ask(address, &long, "").await.starts_with("HTTP/1.1 404 ") || is_simulated());
        // Relative, so that it never leads to another host.
        assert_eq!(field(&ask(address, "GET /f/sub?a=1", "").await, "Location"), Some("./sub/?a=1"));
        let types = [("a.txt", "text/plain; charset=utf-8"), ("with%20space.JS", "text/javascript; charset=utf-8")];
        for (path, content_type) in types {
            let answer = ask(address, &format!("GET /f/{path}"), "").await;
            assert_eq!(field(&answer, "Content-Type"), Some(content_type));
        }
        let head = ask(address, "HEAD /f/big.bin", "").await;
        assert!(has(&head, 200, "") && field(&head, "Content-Length") == Some("900000"), "{head}");
        assert_eq!(field(&ask(address, "POST /elsewhere", "").await, "Allow"), Some("GET, HEAD"));
        stop(serving).await
    });
}

#[test]
fn conditions_and_ranges_hold_for_files() {
    on_each_with_files("files by condition", async || {
        let dir = place_all("conditions");
        let (address, serving) = serve(Router::new().files("/", &*dir), Config::default())?;
        if is_simulated() {
            // Till they are settled.
            sleep(Duration::from_secs(3)).await;
        }
        let whole = ask(address, "GET /a.txt", "").await;
        let tag = field(&whole, "ETag").expect("a tag").to_owned();
        let modified = field(&whole, "Last-Modified").expect("a date").to_owned();
        assert!(tag.starts_with('"') && field(&whole, "Accept-Ranges") == Some("bytes"), "{whole}");
        let early = "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n".to_owned();
        let range = "Range: bytes=2-4\r\n";
        for (line, fields, status, body) in [
            ("GET", format!("If-None-Match: \"x\", W/{tag}\r\n"), 304, ""),
            ("HEAD", format!("If-None-Match: {tag}\r\n"), 304, ""),
            ("GET", format!("If-Modified-Since: {modified}\r\n"), 304, ""),
            ("GET", format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n"), 200, "0123456789"),
            ("GET", if is_simulated() { String::new() } else { early }, 200, "0123456789"),
            ("GET", format!("If-Match: {tag}\r\nIf-Unmodified-Since: {modified}\r\n"), 200, "0123456789"),
            ("GET", "If-Match: \"x\"\r\n".to_owned(), 412, "412"),
            ("GET", range.to_owned(), 206, "234"),
            ("GET", "Range: bytes=-3\r\n".to_owned(), 206, "789"),
            ("GET", "Range: bytes=7-\r\n".to_owned(), 206, "789"),
            ("GET", "Range: bytes=0-1,3-4\r\n".to_owned(), 200, "0123456789"),
            ("GET", format!("{range}{range}"), 200, "0123456789"),
            ("GET", "Range: bytes=10-\r\n".to_owned(), 416, "416"),
            ("GET", format!("{range}If-Range: {tag}\r\n"), 206, "234"),
            ("GET", format!("{range}If-Range: {modified}\r\n"), 206, "234"),
            ("GET", format!("{range}If-Range: \"x\"\r\n"), 200, "0123456789"),
            ("GET", format!("{range}If-None-Match: {tag}\r\n"), 304, ""),
            ("GET", "Range: bytes=10-\r\nIf-Match: \"x\"\r\n".to_owned(), 412, "412"),
            ("HEAD", range.to_owned(), 200, ""),
        ] {
            let answer = ask(address, &format!("{line} /a.txt"), &fields).await;
            let is_so = if status > 400 {
                answer.starts_with(&format!("HTTP/1.1 {body} "))
            } else {
                has(&answer, status, body)
            };
            assert!(is_so, "{line} with {fields}: {answer}");
            if status < 400 {
                assert_eq!(field(&answer, "ETag"), Some(&*tag), "{line} with {fields}: {answer}");
            }
        }
        let part = ask(address, "GET /a.txt", range).await;
        assert_eq!(field(&part, "Content-Range"), Some("bytes 2-4/10"));
        let behind = ask(address, "GET /a.txt", "Range: bytes=10-\r\n").await;
        assert_eq!(field(&behind, "Content-Range"), Some("bytes */10"));
        assert!(has(&ask(address, "GET /empty.css", "Range: bytes=-1\r\n").await, 200, ""));
        stop(serving).await
    });
}

#[test]
fn long_files_come_whole_on_both_protocols() {
    on_each_with_files("long files", async || {
        let dir = place_all("long");
        let (address, serving) = serve(Router::new().files("/", &*dir), Config::default())?;
        let mut client = TcpStream::connect(address).await?;
        client.send_bytes(b"GET /big.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        while let Some(lease) = client.recv().await? {
            answer.extend_from_slice(&lease);
        }
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        assert!(answer[head..] == big(), "{} bytes", answer.len());
        let part = ask(address, "GET /big.bin", "Range: bytes=100000-299999\r\n").await;
        assert_eq!(field(&part, "Content-Length"), Some("200000"));
        let mut client = Client::connect(address, &[]).await?;
        client.send(&plimsoll_conformance::frames::get(1, "/big.bin")).await?;
        assert!(client.next_of(HEADERS).await?.has_status(200));
        let mut body = Vec::new();
        while let Some(frame) = client.frame().await? {
            if frame.kind == plimsoll_conformance::frames::DATA {
                body.extend_from_slice(&frame.payload);
                if frame.ends_stream() {
                    break;
                }
                let more = u32::try_from(frame.payload.len()).expect("a frame").to_be_bytes();
                for stream in [0, 1] {
                    client.send(&plimsoll_conformance::frames::frame(8, 0, stream, &more)).await?;
                }
            }
        }
        assert!(body == big(), "{} bytes", body.len());
        drop(client);
        stop(serving).await
    });
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    on_each_with_files("no files", async || {
        if is_simulated() {
            return Ok(());
        }
        let dir = fresh_directory("odd");
        let made = std::process::Command::new("mkfifo").arg(dir.join("fifo")).status().expect("mkfifo is there");
        assert!(made.success());
        let _listener = std::os::unix::net::UnixListener::bind(dir.join("socket")).expect("it is free");
        std::os::unix::fs::symlink("/dev/zero", dir.join("zero")).expect("links can be made");
        std::os::unix::fs::symlink("loop", dir.join("loop")).expect("links can be made");
        let (address, serving) = serve(Router::new().files("/", &*dir), Config::default())?;
        for path in ["/fifo", "/socket", "/zero", "/loop"] {
            let answer = ask(address, &format!("GET {path}"), "").await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        }
        stop(serving).await
    });
}

/// A client that takes nothing gets what was read for it, and then the end of its connection.
#[test]
fn a_file_that_becomes_shorter_cuts_its_answer() {
    on_each_with_files("files that shrink", async || {
        let dir = fresh_directory("shorter");
        let path = dir.join("long.bin");
        place_file(&path, &vec![7; 24 << 20]);
        let routes = Router::new().get("/", ServeFile::new(path.clone()));
        let (address, serving) = serve(routes, Config::default())?;
        let mut client = TcpStream::connect(address).await?;
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let first = client.recv().await?.expect("a head");
        let mut bytes = first.len();
        let head = String::from_utf8_lossy(&first).into_owned();
        drop(first);
        assert!(head.starts_with("HTTP/1.1 200 ") && field(&head, "Content-Length") == Some("25165824"), "{head}");
        drop(fs::OpenOptions::new().write(true).truncate(true).open(&path).await?);
        while let Ok(Some(lease)) = client.recv().await {
            bytes += lease.len();
        }
        assert!(bytes < 24 << 20, "{bytes} bytes of a file that is empty");
        stop(serving).await
    });
}

/// Eight clients under a line that has room for few buffers: each waits, and gets all of it.
#[test]
fn files_wait_for_memory() {
    in_simulation_under("files at the line", MemoryLimit::mib(2), async || {
        let dir = place_all("line");
        let (address, serving) = serve(Router::new().files("/", &*dir), Config::default())?;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(spawn(async move {
                let mut client = TcpStream::connect(address).await?;
                client.send_bytes(b"GET /big.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
                let mut bytes = 0;
                while let Some(lease) = client.recv().await? {
                    bytes += lease.len();
                    drop(lease);
                    sleep(Duration::from_millis(1)).await;
                }
                Ok::<_, plimsoll_runtime::Error>(bytes)
            })?);
        }
        for client in clients {
            let bytes = client.await.expect("no panic")?;
            assert!((900_000..901_000).contains(&bytes), "{bytes} bytes");
        }
        stop(serving).await
    });
}

#[test]
fn without_memory_for_its_first_buffer_a_file_is_put_off() {
    in_simulation_under("no memory for a file", MemoryLimit::mib(4), async || {
        let config = Config { memory_timeout: Duration::from_secs(2), ..Config::default() };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let (address, counters) = (server.local_addr(), server.counters());
        let late = from_fn(async |request, next: Next<'_>| {
            sleep(Duration::from_secs(1)).await;
            next.run(request).await
        });
        let dir = place_all("none");
        let serving = spawn(server.serve(Router::new().files("/", &*dir).layer(late)))?;
        let mut client = TcpStream::connect(address).await?;
        client.send_bytes(b"GET /big.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
        until("the request is begun", || counters.totals().requests_total == 1).await;
        let mut taken = Vec::new();
        for bytes in [4_096, 64] {
            while let Ok(lease) = pool().try_acquire(bytes, Kind::Buffers) {
                taken.push(lease);
            }
        }
        until("it is refused", || counters.totals().responses_total == [(503, 1)]).await;
        assert_eq!(counters.totals().shed_total[Shed::Output as usize], 1);
        drop(taken);
        let answer = read(&mut client, None).await?;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer}");
        stop(serving).await
    });
}

#[test]
fn a_directory_may_come_later() {
    on_each_with_files("files that come later", async || {
        let dir = fresh_directory("later");
        let below: &Path = &dir.join("not/yet");
        let (address, serving) = serve(Router::new().files("/", below), Config::default())?;
        assert!(ask(address, "GET /a", "").await.starts_with("HTTP/1.1 404 "));
        place_file(&below.join("a"), b"here");
        assert!(has(&ask(address, "GET /a", "").await, 200, "here"));
        stop(serving).await
    });
}
