//! `docs/conformance-http1.md` is made from the cases and from what the codec and the server did with them.
//!
//! `PLIMSOLL_WRITE_DOCS=1 cargo test -p plimsoll-conformance` writes it; without that, the test fails when it differs.

use std::fmt::Write as _;
use std::path::Path;

use plimsoll_conformance::answers::outcome;
use plimsoll_conformance::h1::{Framed, Outcome, cases};
use plimsoll_conformance::table;

use super::{codec, server};

#[test]
fn the_document_shows_what_the_codec_and_the_server_do() {
    let document = document(&cases(), &server::in_simulation());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance-http1.md");
    if std::env::var_os("PLIMSOLL_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is ours");
        std::fs::write(&path, &document).expect("the document is ours");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(document.lines()).find(|(old, new)| old != new);
    assert!(
        committed == document,
        "docs/conformance-http1.md is not what the cases come to (first difference: {differs:?}); \
         PLIMSOLL_WRITE_DOCS=1 cargo test -p plimsoll-conformance writes it"
    );
}

fn document(cases: &[Framed], served: &[Outcome]) -> String {
    assert_eq!(cases.len(), served.len(), "an outcome for each case");
    let passed = cases.iter().zip(served).filter(|(framed, outcome)| framed.expected() == **outcome).count();
    let mut text = INTRODUCTION.replace("{passed}", &passed.to_string()).replace("{cases}", &cases.len().to_string());
    let mut title = "";
    for (framed, outcome) in cases.iter().zip(served) {
        if framed.title != title {
            title = framed.title;
            write!(text, "\n## {title}\n\n").expect("a string takes everything");
            text.push_str(&table::heading(&["rule", "RFC", "sent", "expected", "codec", "server"]));
        }
        let cells = [
            table::text(framed.case.rule),
            framed.case.section.to_owned(),
            table::input(framed),
            table::text(&framed.expected().to_string()),
            table::text(&codec_cell(framed)),
            table::text(&outcome.to_string()),
        ];
        text.push_str(&table::line(cells.iter().map(String::as_str)));
    }
    text
}

/// What the codec did: the outcome if it is not the expected one, and the error that it gave.
fn codec_cell(framed: &Framed) -> String {
    let run = codec::run(&framed.bytes(), &[]);
    let got = outcome(framed, run.answers());
    match run.error {
        _ if got != framed.expected() => got.to_string(),
        Some(error) => format!("{error:?}"),
        None => "taken".to_owned(),
    }
}

const INTRODUCTION: &str = "\
# HTTP/1.1 conformance

Made by a test of `conformance/` from its cases: do not edit. {passed} of {cases} cases come out as expected.

Each case is all that a client sends on one connection, followed by `GET /probe` unless the client closes its half. *Expected* is what the
sections ask for; where they leave a choice, the strict one. *Codec* is what `plimsoll-codec` says by itself: `taken`, or the error.
*Server* is what a client received from the whole server in the simulation; the same test demands the same on io_uring and epoll, and for
every case sent in pieces, down to single bytes. `kept` means that the probe was answered, `closed` that it was not and that the connection
ended. `200` is followed by what the handler saw: method, path, query, host and body. `then` are the bytes that came back when HTTP was over.
The server answers clients that close their half (`HalfClose::Answered`).
";
