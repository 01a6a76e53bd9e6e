//! All rules, in the order in which they are shown.

mod assertions;
mod calls;
mod circles;
mod comments;
mod commits;
mod conditions;
mod flags;
mod layout;
mod manifests;
mod naming;
mod one_path;
mod paths;
mod room_imports;
mod rooms;
mod size;
mod unsafety;
mod where_is;

use super::workspace::Workspace;
use super::{Finding, Verdict};

/// A rule.
type Rule = fn(&Workspace) -> Verdict;

/// The name of each rule, and the rule.
pub(super) const ALL: [(&str, Rule); 28] = [
    ("file-lines", size::files),
    ("function-lines", size::functions),
    ("unsafe-listed", unsafety::listed),
    ("unsafe-forbidden", unsafety::forbidden),
    ("unsafe-reasons", unsafety::reasons),
    ("cfg-density", conditions::density),
    ("cfg-target-os", conditions::target_os),
    ("one-sys", conditions::one_sys),
    ("dependency-direction", manifests::direction),
    ("flags", flags::few),
    ("flag-bits", flags::no_bits),
    ("import-circles", circles::circles_of_imports),
    ("rooms", room_imports::none_upwards),
    ("impl-rooms", rooms::of_impls),
    ("manifest-inherits", manifests::inherits),
    ("assertions", assertions::density),
    ("dead-files", layout::dead_files),
    ("module-docs", layout::module_docs),
    ("names", naming::names),
    ("old-words", naming::old_words),
    ("comment-width", comments::width),
    ("sys-calls", calls::sys_calls),
    ("os-calls", calls::os_calls),
    ("sans-io", calls::sans_io),
    ("machine-paths", paths::machine_paths),
    ("where-is", where_is::rows),
    ("one-path", one_path::one_path),
    ("commit-subjects", commits::subjects),
];

#[cfg(test)]
mod tests;
