//! Conditions on the build: few, and those on the operating system in one place.

use std::collections::BTreeSet;

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{CFG_PER_FILE_MAX, CFG_PER_THOUSAND_MAX};
use crate::tidy::lexer::Token;
use crate::tidy::source::closing;
use crate::tidy::workspace::File;

/// At most [`CFG_PER_THOUSAND_MAX`] for each thousand lines, and [`CFG_PER_FILE_MAX`] in a file. `cfg(test)` is free.
pub(super) fn density(workspace: &Workspace) -> Verdict {
    let (mut count, mut lines) = (0, 0);
    let mut findings = Vec::new();
    for file in workspace.product() {
        let in_file = conditions(file.tokens.as_slice()).filter(|line| !file.is_test_line(*line)).count();
        if in_file > CFG_PER_FILE_MAX {
            findings.push(Finding::new(&file.path, 0, format!("{in_file} conditions, at most {CFG_PER_FILE_MAX}")));
        }
        count += in_file;
        lines += file.code_lines();
    }
    if count * 1000 > CFG_PER_THOUSAND_MAX * lines.max(1000) {
        findings.push(Finding::new("crates", 0, format!("{count} conditions in {lines} lines")));
    }
    let tenths = count * 10_000 / lines.max(1);
    let figure = format!(
        "{}.{} for each thousand lines ({count} in {lines}), at most {CFG_PER_THOUSAND_MAX}",
        tenths / 10,
        tenths % 10
    );
    Verdict { figure, findings }
}

/// `target_os` stands in `sys` files, and before a `compile_error!` in `lib.rs`.
pub(super) fn target_os(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut count = 0;
    for file in workspace.product() {
        let tokens = file.tokens.as_slice();
        for at in (0..tokens.len()).filter(|&at| tokens[at].is("target_os")) {
            count += 1;
            let refuses = file.stem() == "lib" && refuses_to_compile(tokens, at);
            if !file.is_sys() && !refuses {
                findings.push(Finding::new(&file.path, tokens[at].line, "`target_os` outside a `sys` file"));
            }
        }
    }
    Verdict { figure: format!("{count} times"), findings }
}

/// A crate touches the operating system in one file or folder.
pub(super) fn one_sys(workspace: &Workspace) -> Verdict {
    let places: BTreeSet<(&str, &str)> = workspace.product().filter_map(sys_place).collect();
    let mut findings = Vec::new();
    let packages: BTreeSet<&str> = places.iter().map(|(package, _)| *package).collect();
    for package in &packages {
        let of_package: Vec<&str> = places.iter().filter(|(of, _)| of == package).map(|(_, place)| *place).collect();
        if of_package.len() > 1 {
            findings.push(Finding::new(
                *package,
                0,
                format!("more than one place for the system: {}", of_package.join(", ")),
            ));
        }
    }
    Verdict { figure: format!("{} crates touch the system", packages.len()), findings }
}

/// The package of a `sys` file, and the path up to `sys`.
fn sys_place(file: &File) -> Option<(&str, &str)> {
    let at = file.path.find("/sys/").or_else(|| file.path.find("/sys.rs"))?;
    Some((&file.package, &file.path[..at]))
}

/// The lines of `cfg(..)`, `cfg!(..)` and `cfg_attr(..)`.
fn conditions(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let is_condition = |w: &&[Token]| {
        let attribute = w[0].is("[") && (w[1].is("cfg") || w[1].is("cfg_attr")) && w[2].is("(") && !w[3].is("test");
        attribute || (w[0].is("cfg") && w[1].is("!"))
    };
    tokens.windows(4).filter(is_condition).map(|w| w[0].line)
}

/// Whether the attribute around `at` is that of a `compile_error!`.
fn refuses_to_compile(tokens: &[Token], at: usize) -> bool {
    let Some(open) = tokens[..at].iter().rposition(|token| token.is("[")) else { return false };
    tokens.get(closing(tokens, open) + 1).is_some_and(|token| token.is("compile_error"))
}
