//! The numbers and names of the house rules, all in one place.

/// A file of more code lines than this is named.
pub(super) const FILE_LINES: usize = 400;
/// A file of more code lines than this breaks the rule.
pub(super) const FILE_LINES_MAX: usize = 600;
/// A function of more code lines than this is named.
pub(super) const FUNCTION_LINES: usize = 60;
/// A function of more code lines than this breaks the rule.
pub(super) const FUNCTION_LINES_MAX: usize = 100;

/// The package whose programs are made by a macro.
pub(super) const FUZZ_PACKAGE: &str = "fuzz";
/// Packages that are workspaces of their own: they have nothing to inherit from.
pub(super) const OWN_WORKSPACES: [&str; 2] = [FUZZ_PACKAGE, "examples/ecosystem"];

/// Where the files with `unsafe` are listed.
pub(super) const UNSAFE_LIST: &str = "UNSAFE.md";
/// The packages that may have such files; the others forbid `unsafe` in the root of each target.
pub(super) const UNSAFE_PACKAGES: [&str; 4] = ["crates/slab", "crates/pool", "crates/reactor", "crates/runtime"];
/// A SAFETY comment begins at most so many lines above its block.
pub(super) const SAFETY_LINES_ABOVE: usize = 12;

/// Conditions on the build for each thousand lines of the product, `cfg(test)` not counted.
pub(super) const CFG_PER_THOUSAND_MAX: usize = 5;
/// Conditions on the build in one file.
pub(super) const CFG_PER_FILE_MAX: usize = 6;

/// The packages in which assertions are counted.
pub(super) const ASSERTION_PACKAGES: [&str; 4] = ["crates/slab", "crates/pool", "crates/reactor", "crates/codec"];
/// Assertions for each thousand code lines, without tests.
pub(super) const ASSERTIONS_PER_THOUSAND_MIN: usize = 10;
/// A smaller package is not judged.
pub(super) const ASSERTIONS_FROM_LINES: usize = 200;

/// Which packages of the workspace a package may be built with. A package that is not here may use all of them.
pub(super) const MAY_DEPEND_ON: [(&str, &[&str]); 10] = [
    ("plimsoll-slab", &[]),
    ("plimsoll-pool", &[]),
    ("plimsoll-codec", &[]),
    ("plimsoll-reactor", &["plimsoll-slab", "plimsoll-pool"]),
    ("plimsoll-runtime", &["plimsoll-reactor", "plimsoll-slab", "plimsoll-pool"]),
    ("plimsoll-tls", &["plimsoll-runtime", "plimsoll-pool"]),
    ("plimsoll-http", &["plimsoll-runtime", "plimsoll-codec", "plimsoll-pool", "plimsoll-slab", "plimsoll-tls"]),
    ("plimsoll-macros", &[]),
    ("plimsoll-tower", &["plimsoll-http", "plimsoll-codec", "plimsoll-runtime", "plimsoll-pool"]),
    (
        "plimsoll",
        &[
            "plimsoll-slab",
            "plimsoll-pool",
            "plimsoll-codec",
            "plimsoll-reactor",
            "plimsoll-runtime",
            "plimsoll-http",
            "plimsoll-macros",
        ],
    ),
];

/// Files of a crate that import each other in a circle.
pub(super) const CIRCLE_FILES_MAX: usize = 3;
/// Larger circles that are there still, the largest of a package first. They may only get smaller.
pub(super) const CIRCLES_LEFT: [(&str, usize); 0] = [];

/// The package whose files lie in rooms.
pub(super) const ROOMS_PACKAGE: &str = "crates/http";
/// Its rooms, the highest first. A room imports from those below it; those of one level do not import each other.
pub(super) const ROOMS: [&[&str]; 7] =
    [&["face"], &["worker"], &["hub"], &["h1", "h2", "websocket", "call"], &["exchange"], &["memory"], &["base"]];
/// Imports that run up or across still: from which room, to which, and how many. They may only get fewer.
pub(super) const UP_LEFT: [(&str, &str, usize); 0] = [];

/// Inherent impls in another room than their types': file and type.
pub(super) const IMPLS_ELSEWHERE: [(&str, &str); 1] = [
    // How a request becomes a member: a hub knows no requests.
    ("crates/http/src/face/hub.rs", "Hub"),
];

/// Fields of a struct that are true or false.
pub(super) const FLAGS_MAX: usize = 2;
/// How the names of structs end that may have more: settings are independent of each other.
pub(super) const FLAGS_OF: [&str; 3] = ["Config", "Options", "Limits"];
/// Structs that have more still: file, name and how many.
pub(super) const FLAGS_LEFT: [(&str, &str, usize); 1] = [
    // Facts of a turn, each set and asked for by itself: the stop, another look, a look in vain, a queue, a count.
    ("crates/http/src/memory/desk.rs", "Desk", 5),
];

/// Packages that may name bits of a byte, as formats have them.
pub(super) const FLAG_BITS_PACKAGES: [&str; 1] = ["crates/codec"];
/// Files elsewhere that name more than [`FLAGS_MAX`] bits of one number, and how many.
pub(super) const FLAG_BITS_LEFT: [(&str, usize); 2] = [
    // What is true of each WebSocket in the one byte that is left of the 64 of a parked one: whether it is listed, is
    // counted, has delivered a message in this turn, and was told of its peer's end. None of these excludes another.
    ("crates/http/src/websocket/wire.rs", 4),
    // What epoll said of a descriptor, in the one byte that each open descriptor costs.
    ("crates/reactor/src/mio/table.rs", 5),
];

/// What a published package takes from the workspace.
pub(super) const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "repository"];
/// What a package takes from the workspace that is not published.
pub(super) const INHERITED_UNPUBLISHED: [&str; 2] = ["edition", "license"];

/// Words that say nothing about a type.
pub(super) const TYPE_WORDS: [&str; 11] =
    ["manager", "helper", "helpers", "util", "utils", "common", "inner", "context", "legacy", "proactor", "extra"];
/// Words that say nothing about a module or a file.
pub(super) const MODULE_WORDS: [&str; 11] =
    ["manager", "helper", "helpers", "util", "utils", "common", "context", "legacy", "proactor", "extra", "misc"];

/// Words that stand nowhere, in code, comments and documents. They had other meanings here than in the field: a memory
/// queue has those that wait, a heaviest peer is shed, a connection has a guard.
pub(super) const OLD_WORDS: [&str; 20] = [
    "manager", "proactor", "drawer", "larder", "redeem", "unkeep", "quench", "slake", "sate", "victim", "seat",
    "untold", "thirsty", "farewell", "hunger", "hungry", "starve", "starved", "starving", "patience",
];
/// History, and what has to name the words: they may stand there.
pub(super) const OLD_WORDS_STATED_IN: [&str; 3] = ["CHANGELOG.md", "CONTRIBUTING.md", "xtask/src/tidy"];

/// The list of where things are, and its heading.
pub(super) const WHERE_IS_IN: &str = "ARCHITECTURE.md";
pub(super) const WHERE_IS_HEADING: &str = "## Where is ...";

/// The crate that users add.
pub(super) const FACADE: &str = "plimsoll";
/// Where the public surface of each crate is listed.
pub(super) const SURFACE_LISTS: &str = "docs/api/";

/// Columns of the first line of a commit.
pub(super) const SUBJECT_COLUMNS_MAX: usize = 72;

/// Clocks, threads and random hashers: only a `sys` file has them; and what to do instead.
pub(super) const SYS_CALLS: [(&[&str], &str); 8] = [
    (&["Instant", "::", "now"], "time is an argument, or comes from the driver"),
    (&["SystemTime", "::", "now"], "time is an argument, or comes from the driver"),
    (&["thread", "::", "spawn"], "threads are started in a `sys` file"),
    (&["thread", "::", "Builder"], "threads are started in a `sys` file"),
    (&["thread", "::", "sleep"], "a worker never sleeps outside its driver"),
    (&["HashMap"], "its order is random, which breaks the simulation; take a BTreeMap or a slab"),
    (&["HashSet"], "its order is random, which breaks the simulation; take a BTreeSet"),
    (&["RandomState"], "a random order breaks the simulation"),
];

/// The package that is bytes in, bytes and events out.
pub(super) const SANS_IO_PACKAGE: &str = "crates/codec";
/// Modules of the standard library that it has no use for.
pub(super) const SANS_IO_MODULES: [&str; 6] = ["net", "thread", "time", "fs", "os", "process"];

/// Paths of one machine.
pub(super) const MACHINE_PATHS: [&str; 4] = ["/home/", "/root/", "/tmp/", "/Users/"];
/// The file that has to state them.
pub(super) const MACHINE_PATHS_STATED_IN: &str = "xtask/src/tidy/config.rs";
