//! The command line takes what the documentation says and refuses the rest.

use clap::Parser;

use super::{Command, Xtask};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Xtask::try_parse_from(std::iter::once("xtask").chain(line.split_whitespace())).map(|xtask| xtask.command)
}

#[test]
fn steps_are_known_by_name() {
    let Ok(Command::Ci(flags)) = parse("ci --skip asan --skip loom --keep-going") else {
        panic!("these flags are documented");
    };
    assert_eq!(flags.skip.len(), 2);
    assert!(flags.keep_going && flags.only.is_empty() && !flags.list);
    assert!(parse("ci --only everything").is_err());
}

#[test]
fn fuzz_seconds_are_positive() {
    let Ok(Command::Fuzz(flags)) = parse("fuzz --seconds 5 --target head") else {
        panic!("these flags are documented");
    };
    assert_eq!((flags.seconds, flags.target.as_slice()), (5, ["head".to_owned()].as_slice()));
    assert!(parse("fuzz --seconds 0").is_err());
}

#[test]
fn a_shard_is_one_of_so_many() {
    let Ok(Command::Mutants(flags)) = parse("mutants --package plimsoll-slab --package plimsoll-pool --shard 7/8")
    else {
        panic!("these flags are documented");
    };
    assert_eq!(flags.package, ["plimsoll-slab", "plimsoll-pool"]);
    assert_eq!(flags.shard.as_deref(), Some("7/8"));
    for wrong in ["8/8", "1", "1/0", "a/8", "-1/8", "1/8/9"] {
        assert!(parse(&format!("mutants --shard {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn flags_of_the_runner_are_passed_on_its_help_too() {
    for (line, flags) in [
        ("bench --quick --peers hyper,other", ["--quick", "--peers", "hyper,other"].as_slice()),
        ("bench --help", &["--help"]),
        ("bench -h", &["-h"]),
        ("bench --pool", &["--pool"]),
    ] {
        let Ok(Command::Bench(found)) = parse(line) else { panic!("`{line}` is passed on") };
        assert_eq!(found.flags, flags);
    }
    let Ok(Command::Soak(found)) = parse("soak --minutes 1 --seed 5") else { panic!("it is passed on") };
    assert_eq!(found.flags, ["--minutes", "1", "--seed", "5"]);
    let Ok(Command::BenchLoad(found)) = parse("bench-load parked 127.0.0.1:80 --part 10") else {
        panic!("it is passed on")
    };
    assert_eq!(found.flags, ["parked", "127.0.0.1:80", "--part", "10"]);
}

#[test]
fn a_command_is_needed_and_must_exist() {
    assert!(parse("").is_err());
    assert!(parse("deploy").is_err());
    assert!(matches!(parse("tidy"), Ok(Command::Tidy)));
}

#[test]
fn flags_of_the_simulation_are_passed_on() {
    let Ok(Command::Sim(flags)) = parse("sim --seeds 5 --first 9") else {
        panic!("these flags are documented");
    };
    assert_eq!(flags.flags, ["--seeds", "5", "--first", "9"]);
    let Ok(Command::Sim(flags)) = parse("sim") else { panic!("no flags are needed") };
    assert!(flags.flags.is_empty());
}
