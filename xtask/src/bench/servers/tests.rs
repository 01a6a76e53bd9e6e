//! The table is sound, and names choose from it.

use super::{ALL, BASELINE, chosen};

fn names(peers: &[&str]) -> Result<Vec<&'static str>, String> {
    let peers: Vec<String> = peers.iter().map(|&peer| peer.to_owned()).collect();
    Ok(chosen(&peers)?.iter().map(|server| server.name).collect())
}

#[test]
fn names_are_unique_and_every_server_is_told_its_port() {
    for (index, server) in ALL.iter().enumerate() {
        assert!(ALL[..index].iter().all(|other| other.name != server.name), "{} twice", server.name);
        let words = server.arguments(4321);
        assert!(words.contains(&"127.0.0.1:4321".to_owned()), "{}: {words:?}", server.name);
        assert!(!words.concat().contains('{'));
    }
    assert!(ALL.iter().any(|server| server.name == BASELINE));
}

#[test]
fn ours_are_always_measured_and_peers_by_name() {
    assert_eq!(names(&[]).unwrap().len(), ALL.len());
    assert_eq!(names(&["hyper"]).unwrap(), ["plimsoll-uring", "plimsoll-mio", "hyper"]);
    assert_eq!(
        names(&["hyper-pipeline-flush", "hyper"]).unwrap(),
        ["plimsoll-uring", "plimsoll-mio", "hyper", "hyper-pipeline-flush"]
    );
}

#[test]
fn an_unknown_peer_is_named_with_those_there_are() {
    let error = names(&["hyper", "nginx"]).unwrap_err();
    assert_eq!(error, "no peer `nginx`; there are hyper, hyper-pipeline-flush");
}
