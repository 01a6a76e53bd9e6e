//! The command line: what is refused, and how; the ready line; the plan.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

use crate::client::Client;
use crate::process::{Arena, Report, Running, drivers, run};

/// It must end at once with code 2 and one clear line.
#[track_caller]
fn refused(flags: &[&str], because: &str) {
    let ended = run("arena", flags);
    assert_eq!(ended.code, Some(2), "{flags:?}: {ended:?}");
    assert_eq!(ended.stdout, "", "{flags:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{flags:?}: one line, not {:?}", ended.stderr);
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.ends_with('\n'), "{flags:?}: {:?}", ended.stderr);
    assert!(ended.stderr.contains(because), "{flags:?}: {:?} does not say {because:?}", ended.stderr);
}

#[test]
fn wrong_flags_and_values_are_refused_in_one_line() {
    refused(&["--no-such-flag"], "--no-such-flag");
    refused(&["stray"], "stray");
    refused(&["--workers"], "--workers");
    refused(&["--plan", "--plan"], "--plan");
    for workers in ["0", "1025", "-1", "two", "", "1.5", "99999999999999999999"] {
        refused(&[&format!("--workers={workers}")], "between 1 and 1024");
    }
    for memory in ["", "0", "0MiB", "64MB", "MiB", "-64MiB", "64 parsecs", "99999999999GiB"] {
        refused(&[&format!("--memory={memory}")], "memory");
    }
    for driver in ["", "epoll", "MIO", "uring,mio"] {
        refused(&[&format!("--driver={driver}")], "`auto`, `uring` or `mio`");
    }
    for address in ["", "localhost", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", ":8080", "8080", "[::1]"] {
        refused(&[&format!("--listen={address}")], "IP:PORT");
    }
}

#[test]
fn a_line_too_low_to_start_says_what_is_needed() {
    for driver in drivers() {
        let ended =
            run("arena", &["--memory", "64KiB", "--driver", driver, "--workers", "1", "--listen", "127.0.0.1:0"]);
        refused(&["--memory", "64KiB", "--driver", driver, "--workers", "1", "--listen", "127.0.0.1:0"], "65536");
        let needed =
            ended.stderr.split("at least ").nth(1).and_then(|rest| rest.split(' ').next()).expect("what is needed");
        let arena = Arena::start(driver, &["--memory", needed, "--workers", "1"]);
        assert!(arena.ready.contains(&format!(" memory={needed}")), "{}", arena.ready);
        arena.stop();
    }
}

#[test]
fn a_flag_that_is_nearly_right_is_suggested() {
    for (written, meant) in [("--memroy", "--memory"), ("--worker", "--workers"), ("--access-logs", "--access-log")] {
        refused(&[&format!("{written}=1")], &format!("a similar argument exists: '{meant}'"));
    }
}

fn under_64_mib<'a>(driver: &'a str, workers: &'a str) -> [&'a str; 8] {
    ["--driver", driver, "--listen", "127.0.0.1:0", "--memory", "64MiB", "--workers", workers]
}

#[test]
fn more_workers_than_the_line_carries_are_refused_with_what_it_carries() {
    for driver in drivers() {
        refused(&under_64_mib(driver, "60"), "too low for 60 workers");
        refused(&under_64_mib(driver, "60"), "for each; it carries ");
        let ended = run("arena", &under_64_mib(driver, "60"));
        let number = |before: &str| -> u64 {
            let rest =
                ended.stderr.split(before).nth(1).unwrap_or_else(|| panic!("{before} is not in {}", ended.stderr));
            rest.split(|byte: char| !byte.is_ascii_digit()).next().and_then(|text| text.parse().ok()).expect("a number")
        };
        let (needed, each, most) = (number("at least "), number("are needed, "), number("it carries "));
        assert!(each * most < 66 << 20 && each * 61 > needed && needed > each * 59, "{}", ended.stderr);
        refused(&under_64_mib(driver, &(most + 1).to_string()), &format!("it carries {most}:"));
        let (mut arena, ready) = Running::start("arena", &under_64_mib(driver, &most.to_string()));
        assert!(ready.contains(&format!(" workers={most} ")), "{ready}");
        let address = ready.split_once("http://").and_then(|(_, rest)| rest.split(' ').next()).expect("an address");
        let mut client = Client::connect(address.parse().expect("an address"));
        assert_eq!(client.get("/pipeline").status, 200, "all of them have what they need to serve");
        arena.signal("TERM");
        assert_eq!(arena.wait().code, Some(0));
    }
}

#[test]
fn the_default_number_of_workers_is_lowered_and_stderr_says_so() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors == 1 {
        println!("skipped: one processor has one worker under any line");
        return;
    }
    for driver in drivers() {
        let flags = ["--driver", driver, "--listen", "127.0.0.1:0", "--memory", "2MiB"];
        let (mut arena, ready) = Running::start("arena", &flags);
        assert!(ready.contains(" workers=1 memory=2097152"), "{ready}");
        arena.signal("TERM");
        let ended = arena.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let said = format!("workers: 1 for {processors} processors: more would take over half of the memory line");
        assert!(ended.stderr.starts_with(&said), "{}", ended.stderr);
        Report::parse(&ended.stderr);
        // A start that fails is one line all the same.
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let in_use = other.local_addr().expect("an address").to_string();
        refused(&["--driver", driver, "--listen", &in_use, "--memory", "2MiB"], "in use");
    }
}

#[test]
fn an_address_that_cannot_be_had_is_refused() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let in_use = other.local_addr().expect("an address").to_string();
    let shared = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    shared.set_reuse_port(true).expect("an option");
    shared.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    shared.listen(16).expect("it listens");
    let in_use_shared =
        shared.local_addr().ok().and_then(|address| address.as_socket()).expect("an address").to_string();
    for driver in drivers() {
        for workers in ["1", "2"] {
            let flags = |address| ["--driver", driver, "--workers", workers, "--listen", address];
            refused(&flags(&in_use), "in use");
            refused(&flags(&in_use_shared), "in use");
            refused(&flags("192.0.2.1:8080"), "does not have that address");
        }
    }
}

#[test]
fn two_arenas_do_not_share_an_address() {
    for driver in drivers() {
        let first = Arena::start(driver, &["--workers", "2"]);
        refused(&["--driver", driver, "--workers", "2", "--listen", &first.address.to_string()], "in use");
        first.stop();
    }
}

#[test]
fn a_port_without_permission_is_refused() {
    let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, 1)) else {
        println!("skipped: this process may listen at every port");
        return;
    };
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        refused(&["--listen", "127.0.0.1:1"], "permission");
    }
}

#[test]
fn an_access_log_that_cannot_be_written_is_refused() {
    refused(&["--listen", "127.0.0.1:0", "--access-log", "/"], "access log");
    refused(&["--listen", "127.0.0.1:0", "--access-log", "/no/such/directory/log"], "access log");
}

#[test]
fn help_is_no_error() {
    let ended = run("arena", &["--help"]);
    assert_eq!(ended.code, Some(0));
    for flag in ["--listen", "--workers", "--memory", "--driver", "--plan", "--access-log"] {
        assert!(ended.stdout.contains(flag), "{flag}: {}", ended.stdout);
    }
}

#[test]
fn the_ready_line_tells_what_runs() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "2", "--memory", "32MiB"]);
        let expected = format!("listening on http://{} driver={driver} workers=2 memory=33554432", arena.address);
        let rest = arena.ready.strip_prefix(&expected).unwrap_or_else(|| panic!("{} is not {expected}", arena.ready));
        assert_ne!(arena.address.port(), 0);
        let rx = rest.split(' ').find_map(|pair| pair.strip_prefix("rx=")).expect("how it receives");
        assert!(["incremental", "classic", "poll"].contains(&rx), "{rx}");
        arena.stop();
    }
}

#[test]
fn the_plan_is_a_sum() {
    const LAST: [&str; 6] =
        ["fixed", "parked_connection", "active_exchange", "kernel_per_connection", "parked_max", "active_max"];
    // What is unlike other connections, or asked for, is in no sum.
    const APART: [&str; 13] = [
        "http2_parked",
        "http2_active",
        "http2_stream",
        "marked_routes",
        "counted_websocket",
        "counted_websocket_task",
        "counted_member",
        "counted_released",
        "counted_tunnel",
        "counted_events",
        "tls_lists",
        "tls_parked",
        "tls_handshake",
    ];
    for driver in drivers() {
        let ended = run("arena", &["--plan", "--driver", driver, "--workers", "2", "--memory", "64MiB"]);
        assert_eq!(ended.code, Some(0));
        let names = ended.stdout.lines().filter_map(|line| line.split(' ').next());
        let mut legend = ended.stderr.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>());
        assert_eq!(legend.next(), Some(vec!["memory", "plan"]), "{}", ended.stderr);
        for name in names {
            let unit = if ["parked_max", "active_max"].contains(&name) { "connections" } else { "bytes" };
            assert_eq!(legend.next(), Some(vec![name, unit]), "the legend has the same order: {}", ended.stderr);
        }
        assert_eq!(legend.next(), None);
        let lines: Vec<(&str, u64)> = ended
            .stdout
            .lines()
            .map(|line| {
                let (name, value) = line.split_once(' ').expect("name value");
                (name, value.parse().expect("a number"))
            })
            .collect();
        assert!(lines.len() > LAST.len(), "consumers come first");
        let (lines, apart) = lines.split_at(lines.len() - APART.len());
        assert_eq!(apart.iter().map(|(name, _)| *name).collect::<Vec<_>>(), APART);
        let (consumers, sums) = lines.split_at(lines.len() - LAST.len());
        assert_eq!(sums.iter().map(|(name, _)| *name).collect::<Vec<_>>(), LAST);
        let names: std::collections::BTreeSet<_> = lines.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), lines.len(), "no name twice");
        let [fixed, parked, active, kernel, parked_max, active_max] = [0, 1, 2, 3, 4, 5].map(|at| sums[at].1);
        assert_eq!(
            consumers.iter().map(|(_, bytes)| bytes).sum::<u64>(),
            fixed + active,
            "an active connection is a parked one with more"
        );
        assert!(parked > 0 && parked < active && kernel > 0);
        assert_eq!((parked_max, active_max), (((64 << 20) - fixed) / parked, ((64 << 20) - fixed) / active));
    }
}
