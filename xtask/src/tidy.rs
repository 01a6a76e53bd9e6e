//! `cargo xtask tidy`: the house rules, each with its figure.
//!
//! A rule is a function from the [`Workspace`] to a [`Verdict`]; the numbers and names that it needs are in [`config`],
//! and its tests show it a bad source, which it must find, and a good one, at which it must be silent.

mod commits;
mod config;
mod imports;
mod lexer;
mod manifest;
mod rules;
mod source;
pub(crate) mod workspace;

use crate::cli::{EXIT_FAILED, EXIT_OK};
use crate::repo;
use workspace::Workspace;

/// What a rule says.
#[derive(Debug, Default)]
struct Verdict {
    /// How far from its limit the tree is.
    figure: String,
    /// Empty: the rule holds.
    findings: Vec<Finding>,
}

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line, message: message.into() }
    }
}

/// Checks the tree and answers with the exit code.
pub(crate) fn run() -> u8 {
    if check() == 0 { EXIT_OK } else { EXIT_FAILED }
}

/// Prints a line for each rule and one for each finding; returns how many rules are broken.
pub(crate) fn check() -> usize {
    let workspace = match Workspace::load(&repo::root()) {
        Ok(workspace) => workspace,
        Err(error) => {
            println!("FAIL  cannot read the tree: {error}");
            return 1;
        }
    };
    let mut broken = 0;
    for (name, rule) in rules::ALL {
        let mut verdict = rule(&workspace);
        verdict.findings.sort();
        let word = if verdict.findings.is_empty() { "PASS" } else { "FAIL" };
        println!("{word}  {name:<22} {}", verdict.figure);
        for Finding { path, line, message } in &verdict.findings {
            println!("      {path}:{line}: {message}");
        }
        broken += usize::from(!verdict.findings.is_empty());
    }
    broken
}
