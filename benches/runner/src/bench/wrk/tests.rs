//! What wrk says is understood, and what it does not say is not made up.

use std::process::Command;
use std::time::{Duration, Instant};

use super::{Errors, Process, Run, microseconds, script};

const GOOD: &str = "\
Running 2s test @ http://127.0.0.1:8081/pipeline
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   527.02us  112.10us   4.73ms   91.21%
    Req/Sec   115.00k     3.02k  121.53k    70.00%
  Latency Distribution
     50%  495.00us
     75%  560.00us
     90%  633.00us
     99%    1.21ms
  241236 requests in 2.10s, 29.68MB read
Requests/sec: 114872.43
Transfer/sec:     14.13MB
";

fn parse(said: &str) -> Option<Run> {
    Run::parse(said, false)
}

#[test]
fn a_good_run_has_no_errors() {
    let run = parse(GOOD).unwrap();
    assert_eq!((run.requests, run.requests_per_second), (241_236, 114_872.43));
    assert_eq!((run.p50_us, run.p99_us), (Some(495.0), Some(1210.0)));
    assert_eq!(run.errors, Errors::default());
}

#[test]
fn errors_of_both_kinds_are_counted() {
    let said = GOOD.replace(
        "Requests/sec:",
        "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 50\nRequests/sec:",
    );
    let errors = parse(&said).unwrap().errors;
    assert_eq!(errors, Errors { connect: 1, read: 2, write: 3, timeout: 4, status: 50 });
    assert_eq!(errors.total(), 60);
    assert_eq!(errors.plus(errors).total(), 120);
}

#[test]
fn a_missing_or_unknown_figure_is_no_run() {
    assert_eq!(parse("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    for label in ["50%", "99%", "requests in", "Requests/sec:"] {
        assert_eq!(parse(&GOOD.replace(label, "?")), None, "without {label}");
    }
    let unknown = GOOD.replace("Requests/sec:", "  Socket errors: connect 1, mood 2\nRequests/sec:");
    assert_eq!(parse(&unknown), None);
}

#[test]
fn a_pipeline_has_no_percentile() {
    let run = Run::parse(GOOD, true).unwrap();
    assert_eq!((run.requests, run.p50_us, run.p99_us), (241_236, None, None));
}

#[test]
fn times_have_units() {
    assert_eq!(microseconds("731.00us"), Some(731.0));
    assert_eq!(microseconds("1.50ms"), Some(1500.0));
    assert_eq!(microseconds("2.00s"), Some(2e6));
    assert_eq!(microseconds("1.50m"), Some(90e6));
    assert_eq!(microseconds("731.00"), None);
    assert_eq!(microseconds("1.0ns"), None);
}

#[test]
fn the_script_repeats_the_request() {
    let script = script(16);
    assert!(script.contains("string.rep(wrk.format(\"GET\"), 16)"), "{script}");
    assert!(script.contains("request = function()\n  return batch\nend\n"), "{script}");
}

#[test]
fn a_program_that_does_not_end_is_ended() {
    let output = |command: &mut Command, ms| Process::start("it", command, Duration::from_millis(ms)).unwrap().output();
    let start = Instant::now();
    let error = output(Command::new("sleep").arg("60"), 50).unwrap_err();
    assert!(error.contains("still runs"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(output(Command::new("echo").arg("ok"), 30_000).unwrap(), "ok\n");
    assert!(output(&mut Command::new("false"), 30_000).unwrap_err().contains("ended with"));
}
