//! The root is the root, and versions are compared as numbers.

use super::{minor_version, root};

#[test]
fn the_root_holds_the_workspace() {
    assert!(root().join("Cargo.toml").is_file() && root().join("xtask/src/main.rs").is_file());
}

#[test]
fn versions_are_numbers() {
    assert_eq!(minor_version("rustc 1.97.0-nightly (e50aa6fba 2026-05-19)"), Some(97));
    assert_eq!(minor_version("1.95"), Some(95));
    assert!(minor_version("rustc 1.100.0") > minor_version("rustc 1.99.0"));
    assert!(minor_version("error: no such toolchain") < minor_version("1.95"));
}
