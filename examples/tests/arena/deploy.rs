//! The files of `deploy/`: they are well-formed, and the filter of system calls lets through what the server calls.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::client::Client;
use crate::process::{Running, drivers, program};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The system calls that the filter allows.
fn allowed() -> BTreeSet<String> {
    let profile: serde_json::Value = serde_json::from_str(&file("seccomp.json")).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let groups = profile["syscalls"].as_array().expect("a list of groups");
    assert!(groups.iter().all(|group| group["action"] == "SCMP_ACT_ALLOW"), "there is no exception");
    let names = groups.iter().flat_map(|group| group["names"].as_array().expect("a list of names"));
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn the_filter_names_each_call_once_and_all_of_io_uring() {
    let profile: serde_json::Value = serde_json::from_str(&file("seccomp.json")).expect("JSON");
    let groups = profile["syscalls"].as_array().expect("a list of groups");
    let count: usize = groups.iter().map(|group| group["names"].as_array().map_or(0, Vec::len)).sum();
    let allowed = allowed();
    assert_eq!(count, allowed.len(), "a call is named twice");
    for call in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(allowed.contains(call), "{call}");
    }
    for call in ["ptrace", "mount", "bpf", "setns", "unshare", "keyctl", "init_module"] {
        assert!(!allowed.contains(call), "{call}");
    }
}

/// What `arena` calls on each driver, as strace sees it.
#[test]
fn the_filter_allows_what_the_server_calls() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("skipped: no strace: install it from the package strace");
        return;
    }
    let allowed = allowed();
    for driver in drivers() {
        let log = env::temp_dir().join(format!("plimsoll-calls-{}-{driver}", std::process::id()));
        let (log_name, arena) = (log.display().to_string(), program("arena").display().to_string());
        let server = ["--listen", "127.0.0.1:0", "--workers", "2", "--driver", driver];
        let flags = [&["-f", "-qq", "-o", &log_name, &arena][..], &server].concat();
        let (mut traced, ready) = Running::start_traced(&flags);
        let address = ready.split_whitespace().find_map(|word| word.strip_prefix("http://")).expect("an address");
        let mut client = Client::connect(address.parse().expect("an address"));
        for target in ["/pipeline", "/blob/3000000", "/delay/20", "/metrics"] {
            assert_eq!(client.get(target).status, 200, "{target}");
        }
        assert_eq!(client.request("POST", "/upload", "", &vec![1; 2_000_000]).text(), "2000000");
        drop(client);
        traced.signal_children("TERM");
        assert_eq!(traced.wait().code, Some(0));
        let text = fs::read_to_string(&log).expect("strace has written");
        let _not_needed_any_more = fs::remove_file(&log);
        let called: BTreeSet<&str> = text.lines().filter_map(call).collect();
        assert!(called.len() > 20 && called.contains("accept4"), "{called:?}");
        let missing: Vec<&&str> = called.iter().filter(|name| !allowed.contains(**name)).collect();
        assert!(missing.is_empty(), "on {driver}, deploy/seccomp.json does not name {missing:?}");
    }
}

/// The call of a line such as `4711 accept4(3, ...`.
fn call(line: &str) -> Option<&str> {
    let call = line.split_once(' ')?.1.trim_start();
    let name = call.split_once('(')?.0;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then_some(name)
}

/// Without a parser of YAML: what goes wrong in such files is indentation and tabs, and what they have to say.
#[test]
fn the_manifest_is_indented_and_says_what_the_guide_says() {
    let text = file("kubernetes.yaml");
    let mut depth = 0;
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let number = number + 1;
        assert!(!line.contains('\t') && indent.is_multiple_of(2), "line {number}: {line:?}");
        let item = line.trim_start();
        if item.starts_with('#') {
            continue;
        }
        assert!(indent <= depth + 4, "line {number} is indented too far: {line:?}");
        let is_entry = item.starts_with("- ") || item == "---" || item.contains(": ") || item.ends_with(':');
        assert!(is_entry, "line {number} is no entry: {line:?}");
        depth = indent;
    }
    for wanted in ["terminationGracePeriodSeconds: 30", "memory: 256Mi", "path: /metrics", "type: Localhost"] {
        assert!(text.contains(wanted), "{wanted}");
    }
}

#[test]
fn the_units_have_sections_with_settings() {
    for (name, sections) in [
        ("plimsoll.service", ["[Unit]", "[Service]", "[Install]"]),
        ("plimsoll.socket", ["[Unit]", "[Socket]", "[Install]"]),
    ] {
        let text = file(name);
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (heads, settings): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('['));
        assert_eq!(heads, sections, "{name}");
        assert!(settings.iter().all(|line| line.split_once('=').is_some()), "{name}");
    }
    assert!(file("plimsoll.service").contains("MemoryMax="), "the limit that sets the line");
}

#[test]
fn the_image_has_the_program_alone() {
    let text = file("Dockerfile");
    let stages: Vec<&str> = text.lines().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(stages, ["FROM rust:1.95 AS build", "FROM scratch"]);
    let channel = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../rust-toolchain.toml"));
    assert!(channel.expect("the toolchain's file").contains("channel = \"1.95"), "the image's Rust is the toolchain's");
}
