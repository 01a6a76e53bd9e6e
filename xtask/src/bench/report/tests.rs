//! The text lines up, the JSON has every round, and errors are not lost.

use serde_json::Value;

use super::{Absent, Report, table};
use crate::bench::load::{Errors, PROFILES, Run};
use crate::bench::placement::{Machine, Placement};
use crate::bench::rounds::{Sample, Series};
use crate::bench::{Extent, parked, rounds};

fn series(server: &'static str, cpu: &[f64], errors: Errors) -> Series {
    let sample = |&cpu_us_per_request: &f64| Sample {
        run: Run { requests: 500, requests_per_second: 1e6 / cpu_us_per_request, p99_us: Some(9.0), errors },
        cpu_us_per_request,
    };
    Series { server, samples: cpu.iter().map(sample).collect(), errors }
}

fn report(errors: Errors, parked_errors: u64) -> Report {
    let machine = Machine {
        kernel: "6.1.0".to_owned(),
        cpu: "Some \"CPU\"".to_owned(),
        cores: 2,
        placement: Placement::Pinned { server: 1, load: 0 },
        load_average: "0.25".to_owned(),
    };
    let extent = Extent { rounds: 2, seconds: 1, warm_up_seconds: 1, parked_rounds: 1 };
    let mut report = Report::new(machine, extent);
    let series = vec![series("plimsoll-uring", &[4.0, 5.0], errors), series("hyper", &[8.0, 10.0], Errors::default())];
    report.profiles.push(rounds::Measured { profile: &PROFILES[0], series });
    let parked = |server, bytes| parked::Parked {
        server,
        bytes_per_connection: vec![bytes],
        idle_bytes: vec![2048.0],
        errors: parked_errors,
    };
    let servers = vec![parked("plimsoll-uring", 100.0), parked("hyper", 400.0)];
    report.parked = Some(parked::Measured { connections: 10, servers });
    report
}

#[test]
fn cells_are_aligned() {
    let rows = [vec!["ab".to_owned(), "1".to_owned()], vec!["a".to_owned(), "1000".to_owned()]];
    assert_eq!(table(&["x", "yy"], rows.into_iter()), "x     yy\nab     1\na   1000\n");
}

#[test]
fn the_text_shows_medians_and_ratios() {
    let text = report(Errors::default(), 0).text();
    let ours = text.lines().find(|line| line.starts_with("plimsoll-uring")).unwrap();
    let words: Vec<&str> = ours.split_whitespace().collect();
    assert_eq!(words[1..4], ["4.50", "(4.00..5.00)", "0.50"]);
    assert_eq!(words.last(), Some(&"0"));
    assert!(text.contains("servers on core 1, wrk on core 0"), "{text}");
    assert!(text.contains("100 (100..100)  0.25           2       0"), "{text}");
}

#[test]
fn the_json_has_every_round() {
    let report: Value = serde_json::from_str(&report(Errors::default(), 0).json()).unwrap();
    assert_eq!(report["machine"]["cpu"], "Some \"CPU\"");
    assert_eq!(report["machine"]["load_average"], 0.25);
    let ours = &report["profiles"][0]["servers"][0];
    assert_eq!(ours["cpu_us_per_request"]["rounds"], serde_json::json!([4.0, 5.0]));
    assert_eq!(ours["cpu_us_per_request"]["ratio"], 0.5);
    assert_eq!(report["parked"]["servers"][0]["bytes_per_connection"]["ratio"], 0.25);
    assert_eq!(report["parked"]["connections"], 10);
}

#[test]
fn any_error_and_any_missing_server_spoils_it() {
    assert!(report(Errors::default(), 0).is_clean());
    assert!(!report(Errors { status: 1, ..Errors::default() }, 0).is_clean());
    assert!(!report(Errors { timeout: 1, ..Errors::default() }, 0).is_clean());
    assert!(!report(Errors::default(), 1).is_clean());
    let mut without = report(Errors::default(), 0);
    without.absent.push(Absent { server: "plimsoll-mio", why: "no epoll".to_owned() });
    assert!(!without.is_clean());
    assert!(without.text().contains("plimsoll-mio is left out: no epoll"));
}
