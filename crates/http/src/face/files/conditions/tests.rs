//! Every condition by itself, and which one goes before which.

use plimsoll_codec::h1::{self, FieldSlot, Limits, RequestView};

use super::*;

/// 1994-11-06 08:49:37, half a second later.
const MODIFIED: Duration = Duration::from_millis(784_111_777_500);
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";

fn validators(now: u64) -> Validators {
    Validators::of(&Metadata { len: 258, mode: 0o100_644, modified: MODIFIED }, now)
}

fn with<R>(fields: &[(&str, &str)], look: impl FnOnce(&RequestRef<'_>) -> R) -> R {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let mut slots = [FieldSlot::EMPTY; 8];
    let request = h1::parse_head(head.as_bytes(), &mut slots, &Limits::DEFAULT).expect("a head");
    look(&RequestView::new(head.as_bytes(), &slots[..], &request))
}

#[test]
fn a_tag_is_weak_until_the_file_is_settled() {
    let tag = format!("\"{:x}-102\"", MODIFIED.as_nanos());
    assert_eq!(validators(784_111_780).etag(), tag);
    assert_eq!(validators(784_111_779).etag(), format!("W/{tag}"));
    // The future is not told.
    assert_eq!(validators(784_111_000).last_modified(), date::format(784_111_000));
    assert_eq!(&validators(784_111_900).last_modified()[..], SAME.as_bytes());
}

#[test]
fn conditions_are_judged_in_order() {
    let file = validators(784_200_000);
    let (tag, weak) = (&*file.etag(), &*format!("W/{}", file.etag()));
    let list = &*format!("\"a,b\" , {weak},\"c\"");
    let strong_list = &*format!(",, \"x\",{tag}");
    for (fields, status) in [
        (vec![], 0),
        (vec![("if-none-match", tag)], 304),
        (vec![("if-none-match", weak)], 304),
        (vec![("if-none-match", list)], 304),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"x\""), ("if-none-match", tag)], 304),
        (vec![("if-none-match", "\"x\"")], 0),
        (vec![("if-none-match", "x")], 0),
        (vec![("if-none-match", "\"unended")], 0),
        (vec![("if-modified-since", SAME)], 304),
        (vec![("if-modified-since", LATER)], 304),
        (vec![("if-modified-since", BEFORE)], 0),
        (vec![("if-modified-since", "yesterday")], 0),
        // A tag says more than a date.
        (vec![("if-none-match", "\"x\""), ("if-modified-since", SAME)], 0),
        (vec![("if-match", tag)], 0),
        (vec![("if-match", strong_list)], 0),
        (vec![("if-match", "*")], 0),
        (vec![("if-match", weak)], 412),
        (vec![("if-match", "\"x\"")], 412),
        (vec![("if-match", "")], 412),
        (vec![("if-unmodified-since", SAME)], 0),
        (vec![("if-unmodified-since", BEFORE)], 412),
        (vec![("if-unmodified-since", "never")], 0),
        (vec![("if-match", tag), ("if-unmodified-since", BEFORE)], 0),
        (vec![("if-match", tag), ("if-none-match", tag)], 304),
        (vec![("if-match", "\"x\""), ("if-none-match", tag)], 412),
    ] {
        let judged = with(&fields, |request| file.judge(request)).map_or(0, |status| status.as_u16());
        assert_eq!(judged, status, "{fields:?}");
    }
}

#[test]
fn a_range_must_fit_to_the_file() {
    let (file, fresh) = (validators(784_200_000), validators(784_111_778));
    let (tag, weak) = (&*file.etag(), &*format!("W/{}", file.etag()));
    for (value, fits) in [(tag, true), (weak, false), ("\"x\"", false), (SAME, true), (BEFORE, false), (LATER, false)] {
        assert_eq!(with(&[("if-range", value)], |request| file.fits_range(request)), fits, "{value}");
        assert!(!with(&[("if-range", value)], |request| fresh.fits_range(request)), "{value} of a file that changes");
    }
    assert!(with(&[], |request| file.fits_range(request)));
}
