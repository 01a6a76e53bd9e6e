//! `cargo xtask bench --criterion [NAME]`: the criterion benches of `benches/benches`, or one group of them.

use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Runs the group of this name; an empty name is all of them. Criterion prints the times, and the change since it ran
/// last here.
pub(super) fn run(name: &str) -> u8 {
    if !name.is_empty() && !GROUPS.contains(&name) {
        eprintln!("no group `{name}`; there are {}", GROUPS.join(", "));
        return EXIT_MISSING;
    }
    let mut cargo = repo::cargo();
    cargo.args(["bench", "--locked", "-p", "plimsoll-benches", "--bench", "hot_paths", "--"]);
    if !name.is_empty() {
        // Criterion takes an expression for where in `group/function` to look.
        cargo.arg(format!("^{name}/"));
    }
    match cargo.status() {
        Ok(status) if status.success() => EXIT_OK,
        Ok(status) => {
            eprintln!("the benches ended with {status}");
            EXIT_FAILED
        }
        Err(error) => {
            eprintln!("cargo did not start: {error}");
            EXIT_FAILED
        }
    }
}

/// The groups, in the order in which they run.
const GROUPS: [&str; 7] = ["slab", "pool", "h1-head", "h1-chunked", "timers", "wakes", "spawn"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_are_those_of_the_benches() {
        let dir = repo::root().join("benches/benches/hot_paths");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).unwrap() {
            let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let named = source.split("benchmark_group(\"").skip(1);
            found.extend(named.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
        found.sort();
        let mut groups = GROUPS.map(str::to_owned);
        groups.sort();
        assert_eq!(found, groups);
    }
}
