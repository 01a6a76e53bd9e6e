//! The table is sound, and names choose from it.

use super::{
    ALL, Ability, BASELINE, BASELINE_HTTP2, Driver, FLOOR_RUSTLS, H2O_TLS, HAPROXY, HAPROXY_TLS, NGINX, NGINX_OVERLOAD,
    NGINX_TLS, OVERLOADED, SECURED, chosen, fill, locked_version,
};

fn names(peers: &[&str], quick: bool) -> Result<Vec<&'static str>, String> {
    let peers: Vec<String> = peers.iter().map(|&peer| peer.to_owned()).collect();
    Ok(chosen(super::ALL, &peers, quick)?.iter().map(|server| server.name).collect())
}

#[test]
fn names_are_unique_and_every_server_is_told_its_port() {
    for (index, server) in ALL.iter().enumerate() {
        assert!(ALL[..index].iter().all(|other| other.name != server.name), "{} twice", server.name);
        let words = server.arguments(4321, "/pipeline");
        let told = words.contains(&"127.0.0.1:4321".to_owned()) || words.concat().contains("config");
        assert!(told, "{}: {words:?}", server.name);
        assert!(!words.concat().contains('{'));
    }
    for name in [BASELINE, Driver::Uring.floor(), Driver::Epoll.floor()] {
        assert!(ALL.iter().any(|server| server.name == name));
    }
}

#[test]
fn servers_of_overload_are_told_their_port_and_how_much_they_take() {
    for server in OVERLOADED.iter().filter(|server| !server.is_installed()) {
        let words = server.arguments(4321, "3MiB");
        assert!(["127.0.0.1:4321", "3MiB"].iter().all(|word| words.contains(&(*word).to_owned())), "{words:?}");
        assert_eq!(server.cannot(Some(Ability::Handlers)), None, "{}", server.name);
    }
    let nginx = OVERLOADED.iter().find(|server| server.is_installed()).unwrap();
    assert!(nginx.cannot(None).is_none() && nginx.cannot(Some(Ability::Handlers)).is_some());
    let configuration = fill(NGINX_OVERLOAD, 4321, "some/dir").replace("{target}", "512");
    assert!(configuration.contains("limit_conn all 512;") && configuration.contains("127.0.0.1:4321"));
}

#[test]
fn servers_of_tls_are_told_their_port_and_certificate() {
    for (index, server) in SECURED.iter().enumerate() {
        assert!(SECURED[..index].iter().all(|other| other.name != server.name), "{} twice", server.name);
        let words = server.arguments(4321, "/").join(" ");
        assert!(
            words.contains("config") || (words.contains("127.0.0.1:4321") && words.contains("tls/key.pem")),
            "{words}"
        );
    }
    for text in [NGINX_TLS, HAPROXY_TLS, H2O_TLS] {
        let text = fill(text, 4321, "some/dir");
        assert!(text.contains("4321") && text.contains("tls/") && !text.contains("{tls}"), "{text}");
    }
    let floor = SECURED.iter().find(|server| server.name == FLOOR_RUSTLS).unwrap();
    assert!(floor.cannot(Some(Ability::Stays)).is_some() && floor.cannot(Some(Ability::Resumes)).is_none());
}

#[test]
fn ours_are_always_measured_and_peers_by_name() {
    assert_eq!(names(&[], false).unwrap().len(), ALL.len());
    assert_eq!(names(&["hyper"], true).unwrap(), ["plimsoll-uring", "plimsoll-mio", "hyper"]);
    assert_eq!(names(&["nginx", "hyper"], false).unwrap(), ["plimsoll-uring", "plimsoll-mio", "hyper", "nginx"]);
    assert_eq!(
        names(&[], true).unwrap(),
        ["plimsoll-uring", "plimsoll-mio", "floor-uring", "floor-epoll", "hyper", "hyper-h2"]
    );
}

#[test]
fn an_unknown_peer_is_named_with_those_there_are() {
    let error = names(&["hyper", "apache"], false).unwrap_err();
    assert!(error.starts_with("no peer `apache`; there are floor-uring, floor-epoll, hyper,"), "{error}");
}

#[test]
fn what_a_server_cannot_do_has_a_reason() {
    let find = |name| ALL.iter().find(|server| server.name == name).unwrap();
    assert!(find("nginx").cannot(Some(Ability::Upload)).is_some_and(|why| !why.is_empty()));
    assert_eq!(find("nginx").cannot(None), None);
    assert_eq!(find(BASELINE).cannot(Some(Ability::Blob)), None);
    assert!(find(BASELINE).cannot(Some(Ability::Http2)).is_some() && find(BASELINE_HTTP2).cannot(None).is_some());
    for name in [BASELINE_HTTP2, "plimsoll-uring", "plimsoll-mio", "h2o"] {
        assert_eq!(find(name).cannot(Some(Ability::Http2)), None, "{name}");
    }
}

#[test]
fn configurations_have_their_port_and_no_machine() {
    assert!(fill(HAPROXY, 4321, "d").contains("bind 127.0.0.1:4321"));
    let nginx = fill(NGINX, 4321, "some/dir");
    assert!(nginx.contains("listen 127.0.0.1:4321") && nginx.contains("root some/dir/files;"), "{nginx}");
}

#[test]
fn the_newest_locked_version_is_shown() {
    let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.1.0\"\n";
    assert_eq!(locked_version(lock, "a"), Some("2.1.0"));
    assert_eq!(locked_version(lock, "b"), None);
}
