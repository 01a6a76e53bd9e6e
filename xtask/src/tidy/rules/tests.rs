//! Every rule finds a bad source and is silent at a good one.

use std::collections::BTreeMap;

use super::super::config;
use super::{ALL, Rule, Workspace};

const MANIFEST: &str = "[package]\nname = \"plimsoll-slab\"\ndescription = \"d\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\nrepository.workspace = true\n\n[lints]\nworkspace = true\n";

/// The findings of a rule, as `path:line: message`.
fn findings(rule: &str, texts: &[(&str, &str)]) -> Vec<String> {
    let (_, rule): &(&str, Rule) = ALL.iter().find(|(name, _)| *name == rule).expect("the rule exists");
    let texts: BTreeMap<String, String> =
        texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let mut findings = rule(&Workspace::from_texts(texts)).findings;
    findings.sort();
    findings.into_iter().map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.message)).collect()
}

/// The findings of a rule in `crates/slab` with this library.
fn in_slab(rule: &str, library: &str) -> Vec<String> {
    findings(rule, &[("crates/slab/Cargo.toml", MANIFEST), ("crates/slab/src/lib.rs", library)])
}

fn silent(findings: &[String]) {
    assert_eq!(findings, [] as [String; 0]);
}

/// One finding, at this place, with these words.
fn one(findings: &[String], place: &str, words: &str) {
    let [finding] = findings else { panic!("one finding is expected: {findings:?}") };
    assert!(finding.starts_with(&format!("{place}: ")) && finding.contains(words), "{finding}");
}

#[test]
fn long_files_are_found() {
    let lines = |count| format!("//! Doc.\n{}", "\n// why\nconst A: u8 = 0;\n".repeat(count));
    silent(&in_slab("file-lines", &lines(config::FILE_LINES_MAX)));
    one(&in_slab("file-lines", &lines(config::FILE_LINES_MAX + 1)), "crates/slab/src/lib.rs:0", "601 code lines");
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const A: u8 = 0;\n".repeat(700));
    silent(&in_slab("file-lines", &tests));
}

#[test]
fn long_functions_are_found() {
    let function = |count| format!("//! Doc.\nfn long() {{\n{}}}\n", "    f();\n\n".repeat(count));
    silent(&in_slab("function-lines", &function(config::FUNCTION_LINES_MAX - 2)));
    one(
        &in_slab("function-lines", &function(config::FUNCTION_LINES_MAX - 1)),
        "crates/slab/src/lib.rs:2",
        "fn long has 101",
    );
}

/// A package with one file with `unsafe`, and a list with these rows.
fn unsafe_list<'a>(rows: &'a str, chunk: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("UNSAFE.md", rows),
        ("crates/slab/Cargo.toml", MANIFEST),
        ("crates/slab/src/lib.rs", "//! Doc.\nmod chunk;\n"),
        ("crates/slab/src/chunk.rs", chunk),
    ]
}

const SOUND: &str = "//! Doc.\n//!\n//! **I-OWN**: nobody else has it.\n\nfn f(p: *mut u8) {\n    // SAFETY: I-OWN: it came\n    // from us.\n    unsafe { p.write(0) }\n}\n";

#[test]
fn unsafe_files_and_their_list_agree_in_both_directions() {
    let row = "| file | what for | invariants |\n|---|---|---|\n| `crates/slab/src/chunk.rs` | cells | I-OWN |\n";
    silent(&findings("unsafe-listed", &unsafe_list(row, SOUND)));
    one(&findings("unsafe-listed", &unsafe_list("", SOUND)), "crates/slab/src/chunk.rs:8", "does not list");
    one(
        &findings("unsafe-listed", &unsafe_list(row, "//! **I-OWN**: \"unsafe\".\n")),
        "UNSAFE.md:3",
        "has no `unsafe`",
    );
    let gone = "| `crates/slab/src/gone.rs` | cells | |\n";
    one(&findings("unsafe-listed", &unsafe_list(gone, "//! Doc.\n")), "UNSAFE.md:1", "does not exist");
    let other = "| `crates/slab/src/chunk.rs` | cells | I-OWN, I-OTHER |\n";
    one(&findings("unsafe-listed", &unsafe_list(other, SOUND)), "UNSAFE.md:1", "I-OTHER is not stated");
}

#[test]
fn files_without_unsafe_forbid_it() {
    silent(&findings("unsafe-forbidden", &unsafe_list("", SOUND)));
    let chunk_forbids = unsafe_list("", "//! Doc.\n\n#![forbid(unsafe_code)]\n");
    one(&findings("unsafe-forbidden", &chunk_forbids), "crates/slab/src/lib.rs:1", "missing");
    let nobody_forbids = unsafe_list("", "//! Doc. #![forbid(unsafe_code)]\n");
    assert_eq!(findings("unsafe-forbidden", &nobody_forbids).len(), 2);
    let other = |text| {
        findings(
            "unsafe-forbidden",
            &[("crates/http/Cargo.toml", ""), ("crates/http/src/lib.rs", text), ("crates/http/src/a.rs", "")],
        )
    };
    one(&other("//! Doc.\n"), "crates/http/src/lib.rs:1", "missing");
    silent(&other("//! Doc.\n#![forbid(unsafe_code)]\n"));
}

#[test]
fn a_parent_of_a_file_with_unsafe_cannot_forbid_it() {
    let texts = [
        ("crates/slab/Cargo.toml", MANIFEST),
        ("crates/slab/src/lib.rs", "//! Doc.\nmod sys;\n"),
        ("crates/slab/src/sys/mod.rs", "//! Doc.\nmod chunk;\nmod key;\n"),
        ("crates/slab/src/sys/chunk.rs", SOUND),
        ("crates/slab/src/sys/key.rs", "//! Doc.\n"),
    ];
    one(&findings("unsafe-forbidden", &texts), "crates/slab/src/sys/key.rs:1", "missing");
}

#[test]
fn a_module_of_tests_may_leave_it_to_the_module_around() {
    let texts = |library: &'static str, test: &'static str| {
        findings(
            "unsafe-forbidden",
            &[
                ("crates/slab/Cargo.toml", MANIFEST),
                ("crates/slab/src/lib.rs", library),
                ("crates/slab/src/tests.rs", ""),
                ("crates/slab/tests/model/main.rs", test),
                ("crates/slab/tests/model/ops.rs", ""),
            ],
        )
    };
    let forbid = "#![forbid(unsafe_code)]";
    silent(&texts(forbid, forbid));
    assert_eq!(texts(forbid, "").len(), 2);
    assert_eq!(texts("", forbid).len(), 2);
}

#[test]
fn a_safety_comment_cites_an_invariant_that_is_stated() {
    silent(&in_slab("unsafe-reasons", SOUND));
    let place = "crates/slab/src/lib.rs:2";
    one(&in_slab("unsafe-reasons", "//! **I-OWN**: ours.\nfn f() { unsafe { g() } }\n"), place, "no `// SAFETY:`");
    let place = "crates/slab/src/lib.rs:3";
    one(
        &in_slab("unsafe-reasons", "//! **I-OWN**: ours.\n// SAFETY: it is fine.\nunsafe impl Send for A {}\n"),
        place,
        "names no invariant",
    );
    one(
        &in_slab("unsafe-reasons", "//! **I-OWN**: ours.\n// SAFETY: I-ELSE.\nunsafe impl Send for A {}\n"),
        place,
        "I-ELSE is not stated",
    );
    one(
        &in_slab("unsafe-reasons", "//! I-OWN, in passing.\n// SAFETY: I-OWN.\nunsafe impl Send for A {}\n"),
        place,
        "I-OWN is not stated",
    );
    silent(&in_slab("unsafe-reasons", "//! No block.\nunsafe fn f() {}\n"));
}

#[test]
fn the_reason_of_another_block_does_not_count() {
    let far = format!(
        "//! **I-OWN**: ours.\n// SAFETY: I-OWN.\n{}unsafe impl Send for A {{}}\n",
        "\n".repeat(config::SAFETY_LINES_ABOVE)
    );
    one(&in_slab("unsafe-reasons", &far), "crates/slab/src/lib.rs:15", "no `// SAFETY:`");
}

#[test]
fn many_conditions_are_found() {
    let conditions =
        |count| format!("//! Doc.\n{}", "#[cfg(loom)]\nfn f() {}\n#[cfg(test)]\nfn g() {}\n".repeat(count));
    silent(&in_slab("cfg-density", &conditions(config::CFG_PER_THOUSAND_MAX)));
    let many = in_slab("cfg-density", &conditions(config::CFG_PER_FILE_MAX + 1));
    assert_eq!(many.len(), 2, "{many:?}");
    assert!(many[0].contains("7 conditions in 14 lines"), "{many:?}");
    assert!(many[1].contains("7 conditions, at most 6"), "{many:?}");
}

#[test]
fn the_operating_system_is_asked_for_in_one_place() {
    silent(&in_slab(
        "cfg-target-os",
        "//! Doc.\n#[cfg(not(target_os = \"linux\"))]\ncompile_error!(\"Linux only\");\n",
    ));
    one(
        &in_slab("cfg-target-os", "//! Doc.\n#[cfg(target_os = \"linux\")]\nfn f() {}\n"),
        "crates/slab/src/lib.rs:2",
        "outside",
    );
    let sys = [
        ("crates/slab/Cargo.toml", MANIFEST),
        ("crates/slab/src/sys/net.rs", "#[cfg(target_os = \"linux\")]\nfn f() {}\n"),
    ];
    silent(&findings("cfg-target-os", &sys));
}

#[test]
fn a_second_sys_is_found() {
    let one_place =
        [("crates/slab/Cargo.toml", MANIFEST), ("crates/slab/src/sys.rs", ""), ("crates/slab/src/sys/net.rs", "")];
    silent(&findings("one-sys", &one_place));
    let two =
        [("crates/slab/Cargo.toml", MANIFEST), ("crates/slab/src/sys.rs", ""), ("crates/slab/src/net/sys.rs", "")];
    one(&findings("one-sys", &two), "crates/slab:0", "more than one");
}

#[test]
fn dependencies_against_the_direction_are_found() {
    let pool = ("crates/pool/Cargo.toml", "[package]\nname = \"plimsoll-pool\"\n");
    let with = |table: &str| format!("{MANIFEST}\n[{table}]\nplimsoll-pool.workspace = true\nlibc.workspace = true\n");
    one(
        &findings("dependency-direction", &[("crates/slab/Cargo.toml", &with("dependencies")), pool]),
        "crates/slab/Cargo.toml:14",
        "plimsoll-slab must not depend on plimsoll-pool",
    );
    silent(&findings("dependency-direction", &[("crates/slab/Cargo.toml", &with("dev-dependencies")), pool]));
    let unknown = ("crates/new/Cargo.toml", "[package]\nname = \"plimsoll-new\"\n");
    one(&findings("dependency-direction", &[unknown]), "crates/new/Cargo.toml:0", "does not know");
}

#[test]
fn manifests_that_say_it_again_are_found() {
    silent(&findings("manifest-inherits", &[("crates/slab/Cargo.toml", MANIFEST)]));
    let own = MANIFEST.replace("license.workspace = true", "license = \"MIT\"");
    one(
        &findings("manifest-inherits", &[("crates/slab/Cargo.toml", &own)]),
        "crates/slab/Cargo.toml:0",
        "license.workspace",
    );
    let no_lints = MANIFEST.replace("[lints]\nworkspace = true\n", "");
    one(
        &findings("manifest-inherits", &[("crates/slab/Cargo.toml", &no_lints)]),
        "crates/slab/Cargo.toml:0",
        "[lints]",
    );
    let no_description = MANIFEST.replace("description", "categories");
    one(
        &findings("manifest-inherits", &[("crates/slab/Cargo.toml", &no_description)]),
        "crates/slab/Cargo.toml:0",
        "description",
    );
}

#[test]
fn few_assertions_are_found() {
    let lines = |assertions: usize, others: usize| {
        format!("//! Doc.\nfn f() {{\n{}{}}}\n", "debug_assert!(true);\n".repeat(assertions), "g();\n".repeat(others))
    };
    silent(&in_slab("assertions", &lines(5, 300)));
    one(&in_slab("assertions", &lines(1, 300)), "crates/slab:0", "3 assertions");
    silent(&in_slab("assertions", &lines(0, 20)));
    let only_in_tests =
        format!("{}#[cfg(test)]\nmod tests {{ fn t() {{ {} }} }}\n", lines(0, 300), "assert!(true);\n".repeat(50));
    one(&in_slab("assertions", &only_in_tests), "crates/slab:0", "0 assertions");
}

#[test]
fn files_that_no_module_names_are_found() {
    let texts = |library: &'static str| {
        findings(
            "dead-files",
            &[
                ("crates/slab/Cargo.toml", MANIFEST),
                ("crates/slab/src/lib.rs", library),
                ("crates/slab/src/key.rs", "#[cfg(test)]\nmod tests;\n"),
                ("crates/slab/src/key/tests.rs", ""),
                ("crates/slab/tests/model.rs", ""),
                ("crates/slab/tests/wrong/two_keys.rs", ""),
            ],
        )
    };
    silent(&texts("mod key;\n"));
    let dead = texts("// mod key;\n");
    assert_eq!(dead.len(), 2, "{dead:?}");
    one(&dead[..1], "crates/slab/src/key.rs:0", "no `mod`");
}

#[test]
fn targets_that_the_manifest_names_are_roots() {
    let manifest =
        "[package]\nname = \"plimsoll-examples\"\n\n[[example]]\nname = \"arena\"\npath = \"arena/main.rs\"\n";
    let texts = [
        ("examples/Cargo.toml", manifest),
        ("examples/arena/main.rs", "mod items;\n"),
        ("examples/arena/items.rs", ""),
    ];
    silent(&findings("dead-files", &texts));
}

#[test]
fn files_without_a_doc_are_found() {
    silent(&in_slab("module-docs", "//! Doc.\n"));
    one(&in_slab("module-docs", "mod a;\n//! Late.\n"), "crates/slab/src/lib.rs:1", "not a `//!` doc");
    one(&in_slab("module-docs", "/// Of an item.\nfn f() {}\n"), "crates/slab/src/lib.rs:1", "not a `//!` doc");
}

#[test]
fn names_that_say_nothing_are_found() {
    silent(&in_slab(
        "names",
        "//! Doc.\nuse std::task::Context;\nstruct Slab { inner: u8 }\nfn helper() {}\nmod key { type Commonly = u8; }\n",
    ));
    one(&in_slab("names", "struct ConnectionManager;\n"), "crates/slab/src/lib.rs:1", "manager");
    one(&in_slab("names", "\nenum Inner {}\n"), "crates/slab/src/lib.rs:2", "inner");
    one(&in_slab("names", "mod http_utils {}\n"), "crates/slab/src/lib.rs:1", "utils");
    one(&findings("names", &[("crates/slab/tests/common/mod.rs", "")]), "crates/slab/tests/common/mod.rs:0", "folder");
    one(&findings("names", &[("crates/slab/src/helper.rs", "")]), "crates/slab/src/helper.rs:0", "helper");
}

#[test]
fn clocks_threads_and_random_hashers_are_found() {
    for call in [
        "Instant::now()",
        "std::time::SystemTime::now()",
        "thread::spawn(f)",
        "HashMap::new()",
        "RandomState::default()",
    ] {
        let library = format!("//! Doc: `{call}`.\nfn f() {{\n    let x = {call}; // {call}\n}}\n");
        one(&in_slab("sys-calls", &library), "crates/slab/src/lib.rs:3", "outside a `sys` file");
        let test = format!("#[cfg(test)]\nmod tests {{\n    fn f() {{ {call}; }}\n}}\n");
        silent(&in_slab("sys-calls", &test));
        silent(&findings("sys-calls", &[("crates/slab/src/sys.rs", &library), ("xtask/src/main.rs", &library)]));
    }
}

#[test]
fn calls_of_the_c_library_are_found() {
    one(&in_slab("os-calls", "fn f() {\n    libc::close(3);\n}\n"), "crates/slab/src/lib.rs:2", "libc::close");
    silent(&in_slab("os-calls", "const E: libc::c_int = libc::EINTR;\n"));
    silent(&findings("os-calls", &[("crates/slab/src/sys.rs", "fn f() { libc::close(3); }\n")]));
}

#[test]
fn sockets_and_clocks_in_the_codec_are_found() {
    let in_codec = |text| findings("sans-io", &[("crates/codec/Cargo.toml", ""), ("crates/codec/src/lib.rs", text)]);
    one(&in_codec("//! Doc.\nuse std::net::TcpStream;\n"), "crates/codec/src/lib.rs:2", "std::net");
    one(&in_codec("use std::time::Instant;\n"), "crates/codec/src/lib.rs:1", "std::time");
    silent(&in_codec("//! Not `std::net`.\nuse core::time::Duration;\nuse std::fmt;\n"));
}

#[test]
fn words_that_were_given_up_are_found() {
    for (line, found) in [
        ("//! A manager of leases.", true),
        ("struct LeaseManager;", true),
        ("fn manager_of() {}", true),
        ("const MANAGERS: u8 = 0;", true),
        ("//! They managed.", false),
        ("//! A proactorless world.", false),
        ("//! It is seated.", false),
        ("struct Nauseating;", false),
    ] {
        let findings = in_slab("old-words", line);
        let word = |finding: &&String| finding.starts_with("crates/slab/src/lib.rs:1: ");
        assert_eq!(findings.iter().filter(word).count(), usize::from(found), "{line}: {findings:?}");
    }
    one(&findings("old-words", &[("docs.md", "one\na Seat\n")]), "docs.md:2", "`seat`");
    silent(&findings("old-words", &[("CHANGELOG.md", "no larder\n"), ("xtask/src/tidy/config.rs", "larder\n")]));
}

#[test]
fn wide_comments_are_found() {
    let at = |max: &str, library: &str| {
        findings(
            "comment-width",
            &[("rustfmt.toml", max), ("crates/slab/Cargo.toml", MANIFEST), ("crates/slab/src/lib.rs", library)],
        )
    };
    let wide = format!("//! {}\nfn f() {{}} // {}\n", "a ".repeat(10), "b".repeat(20));
    silent(&at("max_width = 33\n", &wide));
    one(&at("max_width = 32\n", &wide), "crates/slab/src/lib.rs:2", "33 columns, at most 32");
    assert_eq!(at("max_width = 22\n", &wide).len(), 2);
    let wide = "b".repeat(120);
    silent(&at("", &format!("const A: &str = \"{wide}\";\n//! | {wide} | a |\n/// [a]: https://{wide}\n")));
    one(&at("", &format!("/*\n{wide}\n*/\n")), "crates/slab/src/lib.rs:2", "120 columns, at most 100");
}

#[test]
fn subjects_of_another_form_are_found() {
    let findings = |subject: &str| {
        let mut workspace = Workspace::from_texts(BTreeMap::new());
        workspace.commits = vec![("abc1234".to_owned(), subject.to_owned())];
        let (_, rule) = ALL.iter().find(|(name, _)| *name == "commit-subjects").expect("the rule exists");
        rule(&workspace)
            .findings
            .iter()
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect::<Vec<_>>()
    };
    for good in ["codec: refuse a bare newline", "http, runtime: mend", "benches/runner: move", "ci: x"] {
        silent(&findings(good));
    }
    let long = format!("codec: {}", "a".repeat(66));
    for (bad, words) in [
        ("Refuse a bare newline", "is not like"),
        ("Codec: refuse a bare newline", "is not like"),
        ("codec: Refuse a bare newline", "is not like"),
        ("codec: refuse a bare newline.", "is not like"),
        ("codec,: refuse", "is not like"),
        (": refuse", "is not like"),
        ("fixup! codec: refuse", "is not like"),
        (&long, "has 73 columns, at most 72"),
    ] {
        one(&findings(bad), "abc1234", words);
    }
    silent(&findings(&long[..72]));
}

#[test]
fn paths_of_one_machine_are_found() {
    for path in config::MACHINE_PATHS {
        one(
            &in_slab("machine-paths", &format!("//! Doc.\nconst A: &str = \"{path}x\";\n")),
            "crates/slab/src/lib.rs:2",
            path,
        );
        one(&findings("machine-paths", &[("README.md", path)]), "README.md:1", path);
        silent(&findings("machine-paths", &[("crates/slab/tests/files.rs", path)]));
    }
    silent(&in_slab("machine-paths", "//! See ../slab and `src/lib.rs`.\n"));
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn large_circles_of_imports_are_found() {
    let crate_of = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let library: String = names.iter().map(|name| format!("mod {name};\n")).collect();
        let next = |number: usize| format!("//! Doc.\nuse crate::m{}::T;\npub struct T;\n", (number + 1) % count);
        let files = (0..count).map(|number| (format!("crates/slab/src/m{number}.rs"), next(number)));
        let mut texts: Vec<(String, String)> = files.collect();
        texts.push(("crates/slab/Cargo.toml".to_owned(), MANIFEST.to_owned()));
        texts.push(("crates/slab/src/lib.rs".to_owned(), format!("//! Doc.\n{library}")));
        texts
    };
    let findings = |count| {
        let texts: Vec<(String, String)> = crate_of(count);
        findings("import-circles", &texts.iter().map(|(path, text)| (&**path, &**text)).collect::<Vec<_>>())
    };
    silent(&findings(config::CIRCLE_FILES_MAX));
    one(&findings(config::CIRCLE_FILES_MAX + 1), "crates/slab/src/m0.rs:0", "4 files import each other");
}

/// What is said of the rooms of a crate of these files, where this is left.
fn rooms(files: &[(&str, &str)], left: &[(&str, &str, usize)]) -> Vec<String> {
    let lib = ("lib.rs", "//! Doc.\nmod base;\nmod face;\nmod h1;\nmod h2;\npub use face::server::Server;\n");
    let rooms = [
        ("face/mod.rs", "pub mod server;\n"),
        ("face/server.rs", "use crate::h1::H1;\nuse crate::h2::H2;\npub struct Server;\n"),
        ("base/mod.rs", "pub struct Error;\n"),
        ("h1/mod.rs", "use crate::base::Error;\nmod body;\npub struct H1;\n"),
        ("h1/body.rs", "use super::H1;\n"),
        ("h2/mod.rs", "pub struct H2;\n"),
    ];
    let mut texts: BTreeMap<String, String> = BTreeMap::from([("crates/http/Cargo.toml".into(), MANIFEST.into())]);
    for (path, text) in [lib].iter().chain(&rooms).chain(files) {
        texts.insert(format!("crates/http/src/{path}"), (*text).to_owned());
    }
    let found = super::room_imports::judged(&Workspace::from_texts(texts), left).findings;
    found.into_iter().map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.message)).collect()
}

#[test]
fn imports_that_run_up_between_rooms_are_found() {
    silent(&rooms(&[], &[]));
    let up = [("h1/body.rs", "use super::H1;\nuse crate::Server;\n")];
    one(&rooms(&up, &[]), "crates/http/src/h1:0", "1 imports from face, which is not below; 0 are left:");
    one(&rooms(&up, &[]), "crates/http/src/h1:0", "crates/http/src/h1/body.rs -> face/server.rs");
    silent(&rooms(&up, &[("h1", "face", 1)]));
    one(&rooms(&up, &[("h1", "face", 2)]), "crates/http/src/h1:0", "where 2 were left");
    one(&rooms(&[], &[("h1", "face", 1)]), "crates/http/src/h1:0", "take it out of `UP_LEFT`");
    let across = [("h1/body.rs", "fn f(_: crate::h2::H2) {}\n")];
    one(&rooms(&across, &[]), "crates/http/src/h1:0", "1 imports from h2");
    one(&rooms(&across, &[("h2", "h1", 1), ("h1", "h2", 1)]), "crates/http/src/h2:0", "no import from h1 is left");
    let tests = [("h1/body.rs", "#[cfg(test)]\nmod tests {\n    use crate::Server;\n}\n")];
    silent(&rooms(&tests, &[]));
}

#[test]
fn files_in_no_room_are_found() {
    one(&rooms(&[("other.rs", "//! Doc.\n")], &[]), "crates/http/src/other.rs:0", "in no room");
    one(&rooms(&[("other/mod.rs", "//! Doc.\n")], &[]), "crates/http/src/other/mod.rs:0", "in no room");
}

#[test]
fn methods_far_from_their_type_are_found() {
    let of = |home: &str, place: &str, text: &str| {
        let (home, place) = (format!("crates/slab/src/{home}"), format!("crates/slab/src/{place}"));
        let home_text = "pub struct T<A>(A);\nimpl<A> T<A> {}\n";
        findings("impl-rooms", &[("crates/slab/Cargo.toml", MANIFEST), (&home, home_text), (&place, text)])
    };
    let text = "//! Doc.\nimpl<A: Fn() -> u8> super::T<A> where A: Copy { fn f() -> impl Copy {} }\n";
    one(&of("t.rs", "other.rs", text), "crates/slab/src/other.rs:2", "methods of `T`, which is in src/t.rs");
    one(&of("a/t.rs", "b/other.rs", text), "crates/slab/src/b/other.rs:2", "methods of `T`");
    for (home, place) in
        [("t.rs", "t/more.rs"), ("a/mod.rs", "a/more.rs"), ("a/t.rs", "a/b/more.rs"), ("lib.rs", "a.rs")]
    {
        silent(&of(home, place, text));
    }
    for text in ["impl<A> Clone for T<A> {}\n", "impl Unknown {}\n", "#[cfg(test)]\nimpl T<u8> {}\n"] {
        silent(&of("t.rs", "other.rs", text));
    }
    silent(&of("t.rs", "tests.rs", text));
    let (file, name) = config::IMPLS_ELSEWHERE[0];
    let text = format!("impl {name} {{}}\nimpl Other {{}}\n");
    let types = format!("struct {name};\nstruct Other;\n");
    let crates = [("crates/http/Cargo.toml", MANIFEST), ("crates/http/src/a.rs", &*types), (file, &*text)];
    one(&findings("impl-rooms", &crates), &format!("{file}:2"), "methods of `Other`");
}

#[test]
fn structs_of_many_flags_are_found() {
    let of = |name: &str, fields: &str| in_slab("flags", &format!("//! Doc.\nstruct {name}<T: Copy> {{ {fields} }}\n"));
    silent(&of("A", "a: bool, b: Cell<bool>, c: u8, d: Option<bool>, e: fn(bool) -> bool"));
    one(
        &of("A", "a: bool, /** d */ pub(crate) b: Cell<bool>, c: Option<()>"),
        "crates/slab/src/lib.rs:2",
        "A has 3 flags",
    );
    silent(&of("AConfig", "a: bool, b: bool, c: bool"));
    silent(&in_slab(
        "flags",
        "//! Doc.\n#[cfg(test)]\nstruct A { a: bool, b: bool, c: bool }\nstruct B(bool, bool, bool);\n",
    ));
}

#[test]
fn bits_that_have_names_are_found() {
    let of = |values: &str| {
        let bits = values.split(' ').enumerate().map(|(at, value)| format!("    const B{at}: Self = Self({value});\n"));
        format!("//! Doc.\nimpl Flags {{\n{}}}\n", bits.collect::<String>())
    };
    for good in ["1 2", "1 2 1 2", "3 5 6", "1 4 16", "1<<10 1<<20 1<<30"] {
        silent(&in_slab("flag-bits", &of(good)));
    }
    for bad in ["1 2 4", "0x2 0x4 0x8", "0b100 0b1 0b10", "1<<5 1<<4 1<<6", "1 64 2 4"] {
        let found = in_slab("flag-bits", &of(bad));
        assert!(found.len() == 1 && found[0].contains("3 bits of one number have names"), "{bad}: {found:?}");
    }
    let numbers = "//! Doc.\nconst A: u8 = 1;\npub(super) const B: u8 = 1 << 1;\nconst C: u8 = 4;\n";
    one(&in_slab("flag-bits", numbers), "crates/slab/src/lib.rs:2", "3 bits");
    silent(&in_slab("flag-bits", &numbers.replace("const C: u8", "const C: u32")));
    silent(&in_slab("flag-bits", &format!("#[cfg(test)]\nmod tests {{\n{numbers}}}\n")));
    let in_codec = [("crates/codec/Cargo.toml", ""), ("crates/codec/src/lib.rs", numbers)];
    silent(&findings("flag-bits", &in_codec));
}

#[test]
fn rows_of_the_list_that_name_nothing_are_found() {
    let list = |file: &str, function: &str| {
        let row = format!("| what | `{file}` | `{function}` |");
        let text = format!("# A\n\n{}\n\n| q | f | f |\n|---|---|---|\n{row}\n\n## B\n", config::WHERE_IS_HEADING);
        findings("where-is", &[(config::WHERE_IS_IN, &text), ("src/a.rs", "//! Doc.\nfn there<T>() {}\n")])
    };
    silent(&list("src/a.rs", "there"));
    one(&list("src/b.rs", "there"), "ARCHITECTURE.md:7", "there is no file `src/b.rs`");
    one(&list("src/a.rs", "the"), "ARCHITECTURE.md:7", "has no function `the`");
}

/// The findings of `one-path` in a facade with these lines of its listing and this source; the runtime has a module
/// that is listed, and exports of it.
fn in_facade(listing: &str, library: &str) -> Vec<String> {
    let listing = format!("pub mod plimsoll\n{listing}");
    let runtime = "pub mod plimsoll_runtime\npub use plimsoll_runtime::Lease\npub mod plimsoll_runtime::time\npub struct \
                   plimsoll_runtime::time::Sleep\npub plimsoll_runtime::time::Sleep::at: u64\npub struct \
                   plimsoll_runtime::Sleep\npub plimsoll_runtime::Sleep::at: u64\npub async fn \
                   plimsoll_runtime::nap(u8)\n#[non_exhaustive] pub enum plimsoll_runtime::Error\npub \
                   plimsoll_runtime::Error::Late\npub mod plimsoll_runtime::net\n#[non_exhaustive] pub enum \
                   plimsoll_runtime::net::Error\npub plimsoll_runtime::net::Error::Closed\n";
    let manifest = |name: &str| MANIFEST.replace("plimsoll-slab", name);
    let (facade, pool) = (manifest("plimsoll"), manifest("plimsoll-pool"));
    findings(
        "one-path",
        &[
            ("docs/api/plimsoll.txt", &listing),
            ("docs/api/plimsoll-runtime.txt", runtime),
            ("crates/plimsoll/Cargo.toml", &facade),
            ("crates/plimsoll/src/lib.rs", library),
            ("crates/pool/Cargo.toml", &pool),
            ("crates/runtime/Cargo.toml", &manifest("plimsoll-runtime")),
            ("crates/runtime/src/lib.rs", "//! Doc.\npub use plimsoll_pool::Lease;\n"),
        ],
    )
}

#[test]
fn items_with_two_paths_are_found() {
    let named = |names: &[&str]| {
        let lines: Vec<String> = names.iter().map(|name| format!("pub use plimsoll::{name}\n")).collect();
        in_facade(&lines.concat(), &format!("//! Doc.\npub use plimsoll_runtime::{{{}}};\n", names.join(", ")))
    };
    silent(&named(&["Sleep", "nap", "Error", "Lease"]));
    silent(&named(&["time"]));
    // Two errors with one name.
    silent(&named(&["Error", "net"]));
    one(&named(&["Sleep", "time"]), "docs/api/plimsoll.txt:0", "`plimsoll::Sleep` and `plimsoll::time::Sleep`");
    let listing = "pub use plimsoll::Lease\npub mod plimsoll::memory\npub use plimsoll::memory::Buffer\n";
    let source =
        "//! Doc.\npub use plimsoll_runtime::Lease;\npub mod memory { pub use plimsoll_pool::Lease as Buffer; }\n";
    one(&in_facade(listing, source), "docs/api/plimsoll.txt:0", "`plimsoll::Lease` and `plimsoll::memory::Buffer`");
    let all = "pub mod plimsoll::all\npub use plimsoll::all::<<plimsoll_runtime::*>>\npub use plimsoll::nap\n";
    let found = in_facade(all, "//! Doc.\npub use plimsoll_runtime::nap;\n");
    assert!(found.iter().any(|found| found.contains("`plimsoll::all::nap` and `plimsoll::nap`")), "{found:?}");
}

#[test]
fn a_crate_that_is_exported_as_a_whole_must_be_listed() {
    let exported = |of: &str| in_facade("pub use plimsoll::whole\n", &format!("//! Doc.\npub use {of} as whole;\n"));
    one(&exported("plimsoll_pool"), "docs/api/plimsoll.txt:0", "`plimsoll::whole` is all of `plimsoll_pool`");
    silent(&exported("plimsoll_runtime::net"));
}
