//! Events as text. The property: what a browser reads is what was given, and no field leaks into another.

use core::time::Duration;

use super::{Event, LeaseText};

/// What a browser makes of a stream (9.2.6): type, data and last id of each event, and the time to wait.
fn read(stream: &str) -> (Vec<(String, String, String)>, Option<u64>) {
    let (mut events, mut retry) = (Vec::new(), None);
    let (mut kind, mut data, mut id) = (String::new(), String::new(), String::new());
    for line in stream.replace("\r\n", "\n").split(['\n', '\r']) {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                events.push((core::mem::take(&mut kind), core::mem::take(&mut data), id.clone()));
            }
            kind.clear();
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => kind = value.to_owned(),
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "id" if !value.contains('\0') => id = value.to_owned(),
            "retry" => retry = value.parse().ok(),
            _ => {}
        }
    }
    (events, retry)
}

#[test]
fn what_is_read_is_what_was_given() {
    let texts =
        ["", " ", "a", " a", "a\nb", "a\r\nb\rc", "\n", "\r\n\r\n", "data: x", ": c", "ü\u{0}", "id: 1\n\nevent: e"];
    for data in texts {
        for kind in ["", "e", " e", "e: f"] {
            let event = Event::data(data).event(kind).id("7").retry(Duration::from_millis(1_500));
            let text = event.to_text().expect("no field has a line break");
            assert_eq!(text.len(), event.encoded_bytes());
            let normal = data.replace("\r\n", "\n").replace('\r', "\n");
            let expected = (kind.to_owned(), normal, "7".to_owned());
            assert_eq!(read(&text), (vec![expected], Some(1_500)), "{text:?}");
        }
    }
}

#[test]
fn what_is_not_given_is_not_written() {
    assert_eq!(Event::data("x").to_text().expect("allowed"), "data: x\n\n");
    assert_eq!(Event::empty().id("").to_text().expect("allowed"), "id: \n\n");
    assert_eq!(
        read(&Event::empty().id("9").retry(Duration::from_secs(1)).to_text().expect("allowed")),
        (vec![], Some(1_000))
    );
}

#[test]
fn line_breaks_in_fields_are_refused() {
    for bad in ["a\nb", "a\rb", "\n", "a\r\n"] {
        assert!(Event::data("x").event(bad).to_text().is_err(), "{bad:?}");
        assert!(Event::data("x").id(bad).to_text().is_err(), "{bad:?}");
    }
    assert!(Event::data("x").id("a\0").to_text().is_err());
    assert!(Event::data("x").event("a\0").to_text().is_ok(), "only an id with a NUL is ignored");
}

#[test]
fn a_lease_takes_what_was_counted() {
    let budget = plimsoll_pool::Budget::new(plimsoll_pool::MemoryLimit::mib(1));
    let pool = plimsoll_pool::Pool::new(&budget, plimsoll_pool::PoolConfig::default()).expect("a pool");
    let event = Event::data("one\ntwo").event("e");
    let mut lease = pool.try_acquire(event.encoded_bytes(), plimsoll_pool::Kind::Buffers).expect("room");
    event.write(&mut LeaseText(&mut lease));
    assert_eq!(&lease[..], event.to_text().expect("allowed").as_bytes());
}
