//! What the commits of a branch are called.

use super::{Finding, Verdict, Workspace};
use crate::tidy::config::SUBJECT_COLUMNS_MAX;

/// `crate: imperative`, lower case, without a full stop, short enough for a list: of what is not on main yet.
pub(super) fn subjects(workspace: &Workspace) -> Verdict {
    let findings = workspace.commits.iter().filter_map(|(commit, subject)| {
        let what = wrong(subject)?;
        Some(Finding::new(commit, 0, format!("`{subject}` {what}")))
    });
    Verdict {
        figure: format!("{} commits that are not on main yet", workspace.commits.len()),
        findings: findings.collect(),
    }
}

fn wrong(subject: &str) -> Option<String> {
    let columns = subject.chars().count();
    let is_area = |area: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/".contains(c);
        !area.is_empty() && area.split(", ").all(|part| !part.is_empty() && part.chars().all(is_part))
    };
    match subject.split_once(": ") {
        _ if columns > SUBJECT_COLUMNS_MAX => Some(format!("has {columns} columns, at most {SUBJECT_COLUMNS_MAX}")),
        Some((area, what)) if is_area(area) && what.starts_with(char::is_lowercase) && !what.ends_with('.') => None,
        _ => Some("is not like `codec: refuse a bare newline in chunk sizes`".to_owned()),
    }
}
