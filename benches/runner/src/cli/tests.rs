//! The command line takes what the documentation says and refuses the rest.

use clap::Parser;

use super::{Command, Runner};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Runner::try_parse_from(std::iter::once("runner").chain(line.split_whitespace())).map(|runner| runner.command)
}

#[test]
fn peers_are_a_list_and_rounds_are_positive() {
    let Ok(Command::Bench(flags)) = parse("bench --quick --peers hyper,other --seconds 1") else {
        panic!("these flags are documented");
    };
    assert_eq!(flags.peers, ["hyper", "other"]);
    assert!(flags.quick);
    assert_eq!((flags.rounds, flags.seconds), (None, Some(1)));
    let Ok(Command::Bench(flags)) = parse("bench --profiles json-50,parked --merge") else {
        panic!("these flags are documented");
    };
    assert_eq!(flags.profiles, ["json-50", "parked"]);
    assert!(flags.merge && !flags.readme);
    assert!(parse("bench --rounds 0").is_err());
    assert!(parse("bench --seconds 0").is_err());
}

#[test]
fn what_ci_runs_is_known() {
    let Ok(Command::Soak(flags)) = parse("soak --minutes 2") else { panic!("these flags are documented") };
    assert_eq!((flags.minutes, flags.seed, flags.driver.len()), (2, None, 0));
    let Ok(Command::Bench(flags)) = parse("bench --instructions") else { panic!("these flags are documented") };
    assert!(flags.instructions && !flags.update);
    assert!(parse("soak --minutes 0").is_err() && parse("soak --driver kqueue").is_err());
}
