//! The table itself: enough of it, and every case a case of its own.

use std::collections::BTreeSet;

use super::*;

#[test]
fn there_are_enough_cases_and_none_comes_twice() {
    let cases = cases();
    assert!(cases.len() >= 200, "{}", cases.len());
    let (mut sent, mut named, mut twice) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for framed in &cases {
        let then = framed.case.then == Then::Probe;
        if !sent.insert((framed.input.clone(), then)) || !named.insert((framed.title, framed.case.rule)) {
            twice.push(framed.case.rule);
        }
    }
    assert!(twice.is_empty(), "sent or named twice: {twice:?}");
}

#[test]
fn sections_are_of_the_documents_that_matter() {
    for framed in cases() {
        let (rfc, section) = framed.case.section.split_once(' ').expect("number and section");
        assert!(["9110", "9112", "3986", "6585", "9113"].contains(&rfc), "{rfc}");
        assert!(section.starts_with(|c: char| c.is_ascii_digit()), "{section}");
    }
}

#[test]
fn limits_are_as_long_as_they_say() {
    let find = |rule: &str| cases().into_iter().find(|framed| framed.case.rule == rule).expect("a case").input;
    let line = |rule: &str| find(rule).iter().position(|&byte| byte == b'\r');
    assert_eq!(line("a request line of 8,192 bytes"), Some(8_192));
    assert_eq!(line("a request line of 8,193 bytes"), Some(8_193));
    assert_eq!(find("a head of 16,384 bytes").len(), 16_384);
    assert_eq!(find("a head of 16,385 bytes").len(), 16_385);
    let fields = |rule: &str| find(rule).split(|&byte| byte == b'\n').count() - 3;
    assert_eq!((fields("100 field lines"), fields("101 field lines")), (100, 101));
    let trailers = |rule: &str| {
        let input = find(rule);
        let at = input.windows(4).position(|window| window == b"A: a").expect("a trailer");
        input.len() - at
    };
    assert_eq!((trailers("trailers of 4,096 bytes"), trailers("trailers of 4,097 bytes")), (4_096, 4_097));
    let extensions = |rule: &str| {
        let input = find(rule);
        let lines = input.split(|&byte| byte == b'\r');
        lines.filter_map(|line| line.iter().position(|&byte| byte == b';').map(|at| line.len() - at)).sum::<usize>()
    };
    assert_eq!(extensions("extensions of 16,384 bytes in a message"), 16_384);
    assert!(extensions("extensions of more in a message") > 16_384);
}
