//! What is tested: the form of a line, that nothing in a request forges one, and that lines which find no room are
//! counted.

use http::StatusCode;
use plimsoll_pool::MemoryLimit;

use super::*;

fn record(request_line: &[u8]) -> AccessRecord<'_> {
    let peer = Some("192.0.2.7:1234".parse().expect("an address"));
    AccessRecord { request_line, status: StatusCode::OK, body_bytes: 2_326, unix_seconds: 784_111_777, peer }
}

fn line(record: &AccessRecord<'_>) -> String {
    let mut out = Vec::new();
    put_line(&mut out, record).expect("a vector takes everything");
    String::from_utf8(out).expect("a text")
}

#[test]
fn a_line_is_in_common_log_format() {
    let of_get = record(b"GET /a%20b?c HTTP/1.1");
    let expected = "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a%20b?c HTTP/1.1\" 200 2326\n";
    assert_eq!(line(&of_get), expected);
    let of_nobody = AccessRecord { peer: None, ..of_get };
    assert_eq!(line(&of_nobody), expected.replace("192.0.2.7", "-"));
}

#[test]
fn a_request_cannot_forge_a_line() {
    let line = line(&record(b"GET /\" 200 1\n\r\t\\\x7f\xff HTTP/1.1"));
    assert!(line.contains("\"GET /\\x22 200 1\\x0a\\x0d\\x09\\x5c\\x7f\\xff HTTP/1.1\" 200 2326\n"), "{line}");
    assert_eq!((line.lines().count(), line.matches('"').count()), (1, 2));
}

#[test]
fn lines_without_room_are_lost_and_counted() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let path = std::env::temp_dir().join(format!("plimsoll-log-{}", std::process::id()));
    let log = AccessLog::open(&path, &budget).expect("a log");
    assert!(budget.charged() >= 2 * BUFFER_BYTES as u64);
    let (long, lines) = ([b'x'; REQUEST_LINE_BYTES_MAX + 1], 5_000);
    for _ in 0..lines {
        log.write(&record(&long));
    }
    let lost = log.close();
    log.write(&record(b"too late"));
    assert_eq!(log.lost_lines(), lost + 1);
    assert_eq!(budget.charged(), 0);
    let text = std::fs::read_to_string(&path).expect("the log was written");
    std::fs::remove_file(&path).expect("the log can be removed");
    assert_eq!(text.lines().count() as u64 + lost, lines);
    assert!(text.lines().all(|line| line.len() > REQUEST_LINE_BYTES_MAX && line.ends_with(" 200 2326")), "whole lines");
}
