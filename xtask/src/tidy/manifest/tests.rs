//! The manifests of this workspace are read as Cargo reads them.

use super::Manifest;

const TEXT: &str = r#"
[package]
name = "plimsoll-x" # the name
version.workspace = true
license = { workspace = true }

[dependencies]
libc.workspace = true
http = "1"

[dependencies.plimsoll-slab]
path = "../slab"

[dev-dependencies]
proptest.workspace = true

[[bin]]
name = "a"
path = "one.rs"

[[bin]]
name = "b"
path = "two.rs"
"#;

#[test]
fn values_are_found_by_table_and_key() {
    let manifest = Manifest::parse(TEXT);
    assert_eq!(manifest.value("package", "name"), Some("plimsoll-x"));
    assert_eq!(manifest.value("dependencies", "name"), None);
    assert_eq!(manifest.values("bin", "path").collect::<Vec<_>>(), ["one.rs", "two.rs"]);
}

#[test]
fn both_forms_of_inheritance_count() {
    let manifest = Manifest::parse(TEXT);
    assert!(manifest.inherits("package", "version") && manifest.inherits("package", "license"));
    assert!(!manifest.inherits("package", "name"));
}

#[test]
fn dependencies_are_those_that_are_built_in() {
    let manifest = Manifest::parse(TEXT);
    let names: Vec<_> = manifest.dependencies().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["libc", "http", "plimsoll-slab"]);
}
