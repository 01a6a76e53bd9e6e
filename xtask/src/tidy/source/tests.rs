//! Lines, functions and modules are found where they are.

use super::{ModuleFile, Source};

#[test]
fn comments_blank_lines_and_tests_are_not_counted() {
    let source = Source::parse(
        "//! Doc.\n\nuse a::{b, c};\n\n/// Doc.\nfn f() {\n    // why\n    g(\"x\n    // y\");\n}\n\n#[cfg(test)]\nuse q::{r};\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n",
    );
    // The `use`, and four lines of `f`: both lines of the string are code.
    assert_eq!(source.code_lines(), 5);
    assert!(source.is_test_line(13) && source.is_test_line(17) && !source.is_test_line(3));
    assert!(source.is_code_line(9) && !source.is_code_line(7));
}

#[test]
fn a_condition_that_is_more_than_test_is_not_a_test() {
    let source = Source::parse(
        "#[cfg(any(test, loom))]\nfn f() {}\n#[cfg(not(test))]\nfn g() {}\n#[cfg(all(test, not(loom)))]\nfn h() {}\n",
    );
    let tests: Vec<_> = source.functions.iter().map(|function| source.is_test_line(function.line)).collect();
    assert_eq!(tests, [false, false, true]);
}

#[test]
fn a_field_that_only_tests_have_ends_with_its_struct() {
    let source = Source::parse("struct A {\n    a: u8,\n    #[cfg(test)]\n    looks: Cell<u32>,\n}\n\nstruct B {}\n");
    assert!(source.is_test_line(4) && !source.is_test_line(2) && !source.is_test_line(7));
}

#[test]
fn functions_end_at_their_own_brace() {
    let source = Source::parse(
        "fn a<const N: usize>(x: [u8; { 1 + 1 }]) -> fn(u8) where T: Fn() {\n    if x { '}' } else { \"}\" }\n}\ntrait T { fn declared(&self);\n    fn given(&self) {}\n}\n",
    );
    let found: Vec<_> = source.functions.iter().map(|f| (f.name.as_str(), f.line, f.line_last)).collect();
    assert_eq!(found, [("a", 1, 3), ("given", 5, 5)]);
}

#[test]
fn modules_know_the_modules_around_them_and_their_path() {
    let source = Source::parse(
        "mod a;\nmod outer { pub(crate) mod b; mod c { mod d; } }\n#[cfg(x)]\n#[path = \"other.rs\"]\npub mod e;\n",
    );
    let of = |path: &[&str], file: Option<&str>, line| ModuleFile {
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        file: file.map(str::to_owned),
        line,
    };
    assert_eq!(
        source.module_files(),
        [
            of(&["a"], None, 1),
            of(&["outer", "b"], None, 2),
            of(&["outer", "c", "d"], None, 2),
            of(&["e"], Some("other.rs"), 5)
        ]
    );
}
