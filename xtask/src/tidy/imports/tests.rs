//! Imports of small crates, and circles of arrows.

use std::collections::BTreeMap;

use super::super::workspace::Workspace;
use super::{Imports, circles};

/// The arrows of a crate of these files, as `from to`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let manifest = ("crates/a/Cargo.toml".to_owned(), "[package]\nname = \"a\"\n".to_owned());
    let texts = files.iter().map(|(name, text)| (format!("crates/a/src/{name}.rs"), (*text).to_owned()));
    let workspace = Workspace::from_texts(texts.chain([manifest]).collect::<BTreeMap<_, _>>());
    let arrows = Imports::of_package(&workspace, "crates/a").arrows(&workspace);
    let name = |path: &str| path.trim_start_matches("crates/a/src/").trim_end_matches(".rs").to_owned();
    arrows.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{} {}", name(from), name(to)))).collect()
}

#[test]
fn an_import_leads_to_the_file_of_its_module() {
    let lib = "mod one;\nmod two;\n";
    assert_eq!(arrows(&[("lib", lib), ("one", "use crate::two::Two;"), ("two", "pub struct Two;")]), ["one two"]);
    assert_eq!(arrows(&[("lib", lib), ("one", "use super::two::{self, Two};"), ("two", "")]), ["one two"]);
    assert_eq!(arrows(&[("lib", lib), ("one", "fn f() { crate::two::g(); }"), ("two", "")]), ["one two"]);
    assert_eq!(arrows(&[("lib", lib), ("one", "use std::two::Two; pub(crate) fn f(self) {}"), ("two", "")]), [""; 0]);
}

#[test]
fn a_name_that_is_exported_again_leads_to_where_it_stands() {
    let lib = "mod one;\nmod two;\npub use two::three::Three as Drei;\npub struct Own;";
    let two = "pub mod three;";
    let files = |one| [("lib", lib), ("one", one), ("two", two), ("two/three", "pub struct Three;")];
    assert_eq!(arrows(&files("use crate::Drei;")), ["one two/three"]);
    assert_eq!(arrows(&files("use crate::{Own, two};")), ["one lib", "one two"]);
}

#[test]
fn a_name_that_goes_through_two_modules_is_followed() {
    let files = [
        ("lib", "mod one;\nmod two;\nmod three;\n"),
        ("one", "use crate::two::Three;"),
        ("two", "pub(crate) use crate::three::Three;"),
        ("three", "pub struct Three;"),
    ];
    assert_eq!(arrows(&files), ["one three"]);
}

#[test]
fn what_is_handed_on_and_used_is_an_import() {
    let one = |one| [("lib", "mod one;\nmod two;"), ("one", one), ("two", "pub struct Two;")];
    assert_eq!(arrows(&one("pub use crate::two::Two;")), [""; 0]);
    assert_eq!(arrows(&one("pub use crate::two::Two; struct One(Two);")), ["one two"]);
}

#[test]
fn tests_and_declarations_are_no_imports() {
    let one = "mod child;\n#[cfg(test)]\nuse crate::two::Two;\n#[cfg(test)]\nmod tests { use crate::two::Two; }\n";
    assert_eq!(arrows(&[("lib", "mod one;\nmod two;"), ("one", one), ("one/child", ""), ("two", "")]), [""; 0]);
}

#[test]
fn inline_modules_have_their_own_paths() {
    let one = "mod inside { use super::super::two::Two; pub struct In; }\nuse self::inside::In;";
    assert_eq!(arrows(&[("lib", "mod one;\nmod two;"), ("one", one), ("two", "pub struct Two;")]), ["one two"]);
}

#[test]
fn a_path_through_a_child_is_an_import() {
    let one = |one| [("lib", "mod one;\n"), ("one", one), ("one/child", "use super::One;")];
    let both = ["one one/child", "one/child one"];
    assert_eq!(arrows(&one("mod child; fn f() { child::g(); }")), both);
    assert_eq!(arrows(&one("mod child; pub use child::Child;")), ["one/child one"]);
    assert_eq!(arrows(&one("mod child; fn f() { other::child::g(); }")), ["one/child one"]);
}

#[test]
fn circles_are_found_with_all_their_files() {
    let arrows = |pairs: &[(&str, &str)]| {
        let mut arrows = super::Arrows::new();
        for (from, to) in pairs {
            arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            arrows.entry((*to).to_owned()).or_default();
        }
        circles(&arrows).into_iter().map(|circle| circle.into_iter().collect::<String>()).collect::<Vec<_>>()
    };
    assert_eq!(arrows(&[("a", "b"), ("b", "c")]), [""; 0]);
    assert_eq!(arrows(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")]), ["abc", "de"]);
}
