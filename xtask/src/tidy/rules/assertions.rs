//! Assertions in the crates that the rest stands on.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::{ASSERTION_PACKAGES, ASSERTIONS_FROM_LINES, ASSERTIONS_PER_THOUSAND_MIN};
use crate::tidy::lexer::Token;

/// At least [`ASSERTIONS_PER_THOUSAND_MIN`] for each thousand code lines, tests not counted.
pub(super) fn density(workspace: &Workspace) -> Verdict {
    let mut findings = Vec::new();
    let mut figures = Vec::new();
    for package in ASSERTION_PACKAGES {
        let (mut count, mut lines) = (0, 0);
        for file in workspace.product().filter(|file| file.package == package) {
            count += assertions(file.tokens.as_slice()).filter(|line| !file.is_test_line(*line)).count();
            lines += file.code_lines();
        }
        let per_thousand = count * 1000 / lines.max(1);
        if lines >= ASSERTIONS_FROM_LINES && per_thousand < ASSERTIONS_PER_THOUSAND_MIN {
            let message =
                format!("{per_thousand} assertions for each thousand lines, at least {ASSERTIONS_PER_THOUSAND_MIN}");
            findings.push(Finding::new(package, 0, message));
        }
        figures.push(format!("{package} {per_thousand} ({count} in {lines})"));
    }
    Verdict { figure: format!("{}; at least {ASSERTIONS_PER_THOUSAND_MIN}", figures.join(", ")), findings }
}

/// The lines of `assert!` and its kin.
fn assertions(tokens: &[Token]) -> impl Iterator<Item = usize> {
    let is_assertion = |pair: &&[Token]| {
        let name = pair[0].text.strip_prefix("debug_").unwrap_or(&pair[0].text);
        pair[1].is("!") && matches!(name, "assert" | "assert_eq" | "assert_ne")
    };
    tokens.windows(2).filter(is_assertion).map(|pair| pair[0].line)
}
