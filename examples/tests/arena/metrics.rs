//! `/metrics`.

use crate::client::Client;
use crate::process::{Arena, Report, WAIT_MAX, drivers};
use crate::release::resident_bytes;

/// The value of a sample.
#[track_caller]
fn value(text: &str, sample: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{sample} is missing in\n{text}")).parse().expect("a number")
}

#[test]
fn every_name_is_there() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "2"]);
        let mut client = Client::connect(arena.address);
        client.get("/nowhere");
        let answer = client.get("/metrics");
        assert!(answer.field("content-type").is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")));
        let text = answer.text();
        let plain = "budget_bytes budget_peak_bytes budget_level kernel_bytes_estimate window_reserved_bytes accepted_total exchanges_begun_total waiters enobufs_total \
                     released_bytes_total loop_turns_total completions_total tasks ops_in_flight fds process_resident_peak_bytes";
        let mut samples: Vec<String> = plain.split(' ').map(|name| format!("plimsoll_{name}")).collect();
        for (name, label, values) in [
            ("budget_charged_bytes", "kind", "fixed slots tasks buffers codec rings stacks"),
            ("connections", "state", "parked active"),
            ("process_resident_bytes", "kind", "anonymous file shared"),
            ("requests_total", "protocol", "h1 h2 ws"),
            ("responses_total", "code", "404"),
            ("shed_total", "reason", "parked head output body accept misbehaviour timeout queue overstay slow"),
            ("exchanges_ended_total", "how", "finished peer timeout overstay stop"),
            ("leases", "class", "64 128 256 512 1024 4096 8192 16384 20480 32768 65536 131072"),
        ] {
            samples.extend(values.split(' ').map(|value| format!("plimsoll_{name}{{{label}=\"{value}\"}}")));
        }
        for sample in &samples {
            value(text, sample);
        }
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split([' ', '{']).next().expect("a name");
            assert_eq!(text.matches(&format!("# TYPE {name} ")).count(), 1, "{name} has a type");
        }
        arena.stop();
    }
}

#[test]
fn the_values_are_true() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "1", "--memory", "32MiB"]);
        let mut parked: Vec<Client> = (0..10).map(|_| Client::connect(arena.address)).collect();
        for client in &mut parked {
            assert_eq!(client.get("/pipeline").status, 200);
        }
        let mut waiting = Client::connect(arena.address);
        waiting.send(b"GET /delay/60000 HTTP/1.1\r\nHost: arena\r\n\r\n");
        let mut client = Client::connect(arena.address);
        client.request("POST", "/echo", "", &[7; 10_000]);
        client.request("DELETE", "/", "", b"");
        let answer = client.get("/metrics");
        let text = answer.text();
        let of = |sample: &str| value(text, &format!("plimsoll_{sample}"));
        assert_eq!(of("budget_bytes"), 32 << 20);
        let kinds = ["fixed", "slots", "tasks", "buffers", "codec", "rings", "stacks"];
        let charged: u64 = kinds.iter().map(|kind| of(&format!("budget_charged_bytes{{kind=\"{kind}\"}}"))).sum();
        assert!(charged > 0 && charged <= of("budget_peak_bytes") && of("budget_peak_bytes") <= 32 << 20);
        assert!(of("budget_charged_bytes{kind=\"slots\"}") > 0);
        assert_eq!((of("connections{state=\"parked\"}"), of("connections{state=\"active\"}")), (10, 2));
        assert_eq!((of("accepted_total"), of("requests_total{protocol=\"h1\"}")), (12, 14));
        let ended = ["finished", "peer", "timeout", "overstay", "stop"]
            .map(|how| of(&format!("exchanges_ended_total{{how=\"{how}\"}}")));
        assert_eq!((of("exchanges_begun_total"), ended), (14, [12, 0, 0, 0, 0]), "that which waits runs, and this one");
        assert_eq!((of("responses_total{code=\"200\"}"), of("responses_total{code=\"405\"}")), (11, 1));
        assert!(of("leases{class=\"512\"}") >= 2, "an exchange for each active connection");
        assert!(of("ops_in_flight") >= 10 && of("fds") >= 12 && of("tasks") >= 1);
        assert!(of("loop_turns_total") > 0 && of("completions_total") >= 14);
        // The next connection is charged before it is accepted.
        assert_eq!(of("kernel_bytes_estimate") % 13, 0);
    }
}

#[test]
fn memory_and_pages_of_files_are_told_apart() {
    const CONNECTIONS: usize = 300;
    const HEAD_BYTES: usize = 8_000;
    for driver in drivers() {
        let mut arena = Arena::start(driver, &["--workers", "1", "--memory", "32MiB"]);
        let resident = |kind: &str| {
            let answer = Client::connect(arena.address).get("/metrics");
            value(answer.text(), &format!("plimsoll_process_resident_bytes{{kind=\"{kind}\"}}"))
        };
        let (before, file) = (resident("anonymous"), resident("file"));
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Filler: {}", "a".repeat(HEAD_BYTES));
        let begun: Vec<Client> = (0..CONNECTIONS)
            .map(|_| {
                let mut client = Client::connect(arena.address);
                client.send(head.as_bytes());
                client
            })
            .collect();
        let held = (CONNECTIONS * HEAD_BYTES) as u64;
        let deadline = std::time::Instant::now() + WAIT_MAX;
        while resident("anonymous") < before + held {
            assert!(std::time::Instant::now() < deadline, "what is kept of heads is anonymous memory");
        }
        assert!(resident("file") < file + held, "and no pages of files");
        assert_eq!(resident("shared"), 0);
        let kernel_says = resident_bytes(arena.running.id());
        assert!(resident("anonymous").abs_diff(kernel_says) < held / 2, "{kernel_says}");
        drop(begun);
        arena.running.signal("TERM");
        let stderr = arena.running.wait().stderr;
        let line = stderr.lines().rev().nth(1).expect("a line before the report");
        let figure = |name: &str| -> u64 {
            let word = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.unwrap_or_else(|| panic!("{name} is not in {line}")).parse().expect("a figure")
        };
        assert!(line.starts_with("resident anonymous="), "{stderr}");
        assert!(figure("anonymous") < before + held, "it is back with the system: {line}");
        assert!(figure("peak") > held && figure("file") > 0 && figure("shared") == 0, "{line}");
        Report::parse(&stderr);
    }
}
