//! The public surface, listed in `docs/api`, so that a change of it is seen in a review.

use std::fs;

use super::Outcome;
use crate::repo;

/// What users depend on: what `plimsoll` exports is defined in the next three. `cargo xtask tidy` reads the lists, too.
const LISTED: [&str; 5] = ["plimsoll", "plimsoll-http", "plimsoll-runtime", "plimsoll-tls", "plimsoll-tower"];
/// With this in the environment the lists are written anew.
const WRITE: &str = "PLIMSOLL_WRITE_DOCS";

/// Compares the lists with what the crates have.
pub(super) fn api() -> Outcome {
    if let Some(install) = repo::nightly_missing("1.92").or_else(|| repo::subcommand_missing("public-api")) {
        return Outcome::Skipped(install);
    }
    LISTED.into_iter().map(listed).find(|outcome| *outcome != Outcome::Passed).unwrap_or(Outcome::Passed)
}

fn listed(name: &str) -> Outcome {
    let mut command = repo::cargo_of("nightly");
    command.args(["public-api", "-p", name, "--all-features", "-sss"]);
    command.env("CARGO_TARGET_DIR", repo::target_dir().join("api"));
    let listed = match command.output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => return Outcome::Failed(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => return Outcome::Failed(format!("cargo public-api did not start: {error}")),
    };
    let path = repo::root().join(format!("docs/api/{name}.txt"));
    if std::env::var_os(WRITE).is_some() {
        return match fs::write(&path, listed) {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(format!("{}: {error}", path.display())),
        };
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let lines = |text: &str, other: &str, mark: char| -> Vec<String> {
        let other: Vec<&str> = other.lines().collect();
        text.lines().filter(|line| !other.contains(line)).map(|line| format!("{mark} {line}")).collect()
    };
    let changed = [lines(&known, &listed, '-'), lines(&listed, &known, '+')].concat();
    if changed.is_empty() {
        return Outcome::Passed;
    }
    println!("{}", changed.join("\n"));
    Outcome::Failed(format!(
        "the interface of {name} is another than docs/api says: {WRITE}=1 cargo xtask ci --only api"
    ))
}
