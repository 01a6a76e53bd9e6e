//! What proxies say in their fields, and what networks are.

use ::core::net::IpAddr;

use plimsoll_codec::h1::{FieldSlot, Limits, RequestView, parse_whole_head};
use proptest::prelude::*;

use super::{Network, client};

const PROXY: IpAddr = IpAddr::V4(::core::net::Ipv4Addr::new(10, 0, 0, 1));

fn named_by(peer: IpAddr, fields: &[(&str, &[u8])]) -> Option<String> {
    let mut head = b"GET / HTTP/1.1\r\nHost: h\r\n".to_vec();
    for (name, value) in fields {
        head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    let mut slots = [FieldSlot::EMPTY; 16];
    let (_, parsed) = parse_whole_head(&head, &mut slots, &Limits::DEFAULT)?;
    let view = RequestView::new(&head, &slots[..usize::from(parsed.fields)], &parsed);
    let trusted: Vec<Network> =
        ["10.0.0.0/8", "fd00::/8"].iter().map(|text| text.parse().expect("a network")).collect();
    client(&view, peer, &trusted).map(|client| client.to_string())
}

fn named(fields: &[(&str, &str)]) -> Option<String> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    named_by(PROXY, &fields)
}

#[test]
fn the_rightmost_that_is_no_trusted_proxy_is_the_client() {
    let cases: &[(&str, Option<&str>)] = &[
        ("192.0.2.1", Some("192.0.2.1")),
        ("198.51.100.9, 192.0.2.1", Some("192.0.2.1")),
        ("192.0.2.1, 10.2.3.4, 10.0.0.9", Some("192.0.2.1")),
        ("10.7.7.7, 10.2.3.4", Some("10.7.7.7")),
        ("nonsense, 192.0.2.1", Some("192.0.2.1")),
        ("192.0.2.1, nonsense", None),
        ("192.0.2.1, unknown, 10.0.0.9", None),
        ("192.0.2.1,", None),
        ("", None),
        ("192.0.2.1:4711", Some("192.0.2.1")),
        ("2001:db8::1", Some("2001:db8::1")),
        ("[2001:db8::1]", Some("2001:db8::1")),
        ("[2001:db8::1]:80", Some("2001:db8::1")),
        ("2001:db8::1, fd00::5", Some("2001:db8::1")),
        ("192.0.2.256", None),
        ("192.0.2.1:99999", None),
        ("[2001:db8::1", None),
    ];
    for (value, expected) in cases {
        assert_eq!(named(&[("X-Forwarded-For", value)]).as_deref(), *expected, "{value:?}");
    }
}

#[test]
fn forwarded_is_read_as_its_rfc_says() {
    let cases: &[(&str, Option<&str>)] = &[
        ("for=192.0.2.60;proto=http;by=203.0.113.43", Some("192.0.2.60")),
        ("For=\"[2001:db8:cafe::17]:4711\"", Some("2001:db8:cafe::17")),
        ("for=192.0.2.43, for=\"[2001:db8:cafe::17]\"", Some("2001:db8:cafe::17")),
        ("for=192.0.2.43, for=10.0.0.2;by=10.0.0.1", Some("192.0.2.43")),
        ("by=10.0.0.1; host=\"a,b;for=1.2.3.4\" ;FOR=192.0.2.43", Some("192.0.2.43")),
        ("for=\"192.0.2.43:_port\"", Some("192.0.2.43")),
        ("for=unknown", None),
        ("for=_hidden, for=10.0.0.2", None),
        ("proto=http", None),
        ("for=2001:db8::1", None),
        ("for=\"192.0.2.43", None),
        ("for=192.0.2.43, for=\"", None),
        ("for=", None),
    ];
    for (value, expected) in cases {
        assert_eq!(named(&[("Forwarded", value)]).as_deref(), *expected, "{value:?}");
    }
}

#[test]
fn several_lines_are_one_list_and_two_fields_must_agree() {
    let lines = [("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2, 10.0.0.2")];
    assert_eq!(named(&lines).as_deref(), Some("192.0.2.2"));
    let forged = [("Forwarded", "for=203.0.113.1"), ("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(named(&forged), None, "one of them may be the client's own");
    let same = [("Forwarded", "for=192.0.2.1"), ("X-Forwarded-For", "192.0.2.1")];
    assert_eq!(named(&same).as_deref(), Some("192.0.2.1"));
}

#[test]
fn who_is_not_trusted_names_nobody() {
    let peer = IpAddr::from([192, 0, 2, 7]);
    assert_eq!(named_by(peer, &[("X-Forwarded-For", b"203.0.113.1"), ("Forwarded", b"for=203.0.113.1")]), None);
}

#[test]
fn networks_say_what_they_are() {
    let contains = |network: &str, address: &str| {
        network.parse::<Network>().expect(network).contains(address.parse().expect("an address"))
    };
    assert!(contains("0.0.0.0/0", "203.0.113.1") && !contains("0.0.0.0/0", "2001:db8::1"));
    assert!(contains("::/0", "2001:db8::1") && !contains("::/0", "203.0.113.1"));
    assert!(contains("192.0.2.1", "::ffff:192.0.2.1") && !contains("192.0.2.1", "192.0.2.2"));
    assert!(contains("192.0.2.128/25", "192.0.2.200") && !contains("192.0.2.128/25", "192.0.2.100"));
    assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
    for wrong in [
        "",
        "10",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.0/008x",
        "10.0.0.1/8",
        "fd00::/129",
        "proxy",
        "10.0.0.0/8/8",
    ] {
        let error = wrong.parse::<Network>().expect_err(wrong);
        assert!(error.to_string().contains("10.0.0.0/8"), "{wrong:?}: {error}");
    }
}

proptest! {
    /// Whatever stands in the fields, nothing panics, and what an untrusted part says on the left changes nothing.
    #[test]
    fn any_field_is_read(value in "[ -~]{0,60}", parts in "[ ,;=:\\[\\]\"\\\\_a-f0-9.for]{0,60}") {
        for text in [&value, &parts] {
            for name in ["Forwarded", "X-Forwarded-For"] {
                let _named = named(&[(name, text)]);
            }
            let behind = format!("{text}, 192.0.2.1");
            prop_assert_eq!(named(&[("X-Forwarded-For", &behind)]), Some("192.0.2.1".to_owned()));
        }
        let lines = [("Forwarded", value.as_str()), ("Forwarded", "for=192.0.2.1")];
        prop_assert_eq!(named(&lines), Some("192.0.2.1".to_owned()));
    }
}
