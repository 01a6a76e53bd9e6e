//! How outcomes compare.

use super::*;

fn case(rule: &str) -> Framed {
    let cases = plimsoll_conformance::h1::cases();
    cases.into_iter().find(|framed| framed.case.rule == rule).expect("a case")
}

fn seen(statuses: &[u16], ending: Ending) -> Seen {
    Seen { statuses: statuses.to_vec(), ending }
}

#[test]
fn a_refusal_by_any_status_is_a_refusal() {
    let smuggling = case("CL.TE");
    for same in [seen(&[400], Ending::Closed), seen(&[501], Ending::Reset), seen(&[], Ending::Closed)] {
        assert_eq!(difference(&smuggling, &same), Difference::Same, "{same:?}");
    }
    for taken in [seen(&[200], Ending::Kept), seen(&[200, 200], Ending::Closed)] {
        assert_eq!(difference(&smuggling, &taken), Difference::Takes, "{taken:?}");
    }
    assert_eq!(difference(&smuggling, &seen(&[400], Ending::Kept)), Difference::End);
}

#[test]
fn what_is_taken_must_be_answered_and_kept() {
    let get = case("GET");
    assert_eq!(difference(&get, &seen(&[302], Ending::Kept)), Difference::Same);
    assert_eq!(difference(&get, &seen(&[200], Ending::Closed)), Difference::End);
    assert_eq!(difference(&get, &seen(&[400], Ending::Closed)), Difference::Refuses);
    assert_eq!(difference(&get, &seen(&[], Ending::Waits)), Difference::Refuses);
    assert_eq!(difference(&get, &seen(&[200, 200], Ending::Kept)), Difference::Takes, "an answer too many");
}

#[test]
fn the_summary_counts_every_case() {
    let cases = plimsoll_conformance::h1::cases();
    let results = cases.iter().map(|_| seen(&[400], Ending::Closed)).collect();
    let column = Column { peer: "no", version: "no 1".to_owned(), results };
    let document = document(&cases, &[column]);
    assert!(document.contains("| no 1 |") && document.contains("(refuses)"));
    assert!(document.matches("400, closed").count() >= cases.len(), "a cell for each case");
}
