//! The cases of HTTP/1.1 on other servers, side by side with what we do.

mod client;
mod peers;
mod report;

use plimsoll_conformance::h1::Framed;

use crate::cli::{ConformanceFlags, EXIT_FAILED, EXIT_MISSING, EXIT_OK};
use crate::repo;

/// Sends every case to every peer, prints the summary and, if asked for, writes the document.
pub(crate) fn run(flags: &ConformanceFlags) -> u8 {
    let peers = match peers::chosen(&flags.peers) {
        Ok(peers) => peers,
        Err(error) => {
            eprintln!("{error}");
            return EXIT_MISSING;
        }
    };
    let missing: Vec<&str> = peers.iter().filter_map(|peer| peer.missing()).collect();
    if !missing.is_empty() {
        eprintln!("{} (or leave it out with --peers)", missing.join("\n"));
        return EXIT_MISSING;
    }
    let cases: Vec<Framed> = plimsoll_conformance::h1::cases().into_iter().filter(Framed::is_for_any_server).collect();
    let mut columns = Vec::new();
    for peer in peers {
        eprintln!("{}: {} cases", peer.name, cases.len());
        match results(peer, &cases) {
            Ok(results) => columns.push(report::Column { peer: peer.name, version: peer.version(), results }),
            Err(error) => {
                eprintln!("{}: {error}", peer.name);
                return EXIT_FAILED;
            }
        }
    }
    print!("{}", report::summary(&cases, &columns));
    if !flags.write {
        return EXIT_OK;
    }
    let path = repo::root().join("docs/conformance-peers.md");
    match std::fs::write(&path, report::document(&cases, &columns)) {
        Ok(()) => EXIT_OK,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            EXIT_FAILED
        }
    }
}

/// What a peer makes of every case.
fn results(peer: &peers::Peer, cases: &[Framed]) -> Result<Vec<client::Seen>, String> {
    let mut running = peer.start()?;
    let results = client::send_all(running.address(), cases);
    running.check()?;
    Ok(results)
}
