//! The report of targets, and what it is read from.

use super::*;

#[test]
fn a_figure_is_the_last_number_of_its_line() {
    let line = "acquire and release, 512B, 16 at a time                       5.430 ns";
    assert_eq!(figure(line), Some(("acquire and release, 512B, 16 at a time".to_owned(), 5.43)));
    assert_eq!(figure("remote free of 64 bytes"), None);
    assert_eq!(figure(""), None);
}

#[test]
fn the_report_says_what_is_met_what_is_not_and_what_is_unknown() {
    let (size, share) = (at_most("a size", 64.0, "bytes", |_| Ok(0.0)), at_least("a share", 98.0, "%", |_| Ok(0.0)));
    let unknown = || Err("no valgrind".to_owned());
    let text =
        table(&[(&size, Ok(64.0)), (&size, Ok(64.001)), (&size, unknown()), (&share, Ok(98.0)), (&share, Ok(97.9))]);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(lines[0].ends_with("  met"), "{text}");
    assert!(lines[1].contains("64.001 bytes") && lines[1].ends_with("NOT MET"), "{text}");
    assert!(lines[2].ends_with("not measured: no valgrind"), "{text}");
    assert!(lines[3].contains(">= 98 %") && lines[3].ends_with("  met"), "{text}");
    assert!(lines[4].contains("97.9 %") && lines[4].ends_with("NOT MET"), "{text}");
}

#[test]
fn the_largest_figure_of_a_family_counts() {
    let figures = [
        ("acquire and release, 64B, one at a time", 5.0),
        ("acquire and release, 20KiB, one at a time", 6.5),
        ("acquire and release, 128KiB, one at a time", 50.0),
        ("acquire and release, 512B, 16 at a time", 99.0),
    ];
    let figures = figures.map(|(name, figure)| (name.to_owned(), figure));
    let bench = Bench { figures: OnceCell::from(Ok(BTreeMap::from(figures))), ..Bench::new(Placement::Unpinned) };
    assert_eq!((hot(&bench), hot_large(&bench)), (Ok(6.5), Ok(50.0)));
    assert!(remote_free(&bench).is_err(), "a figure that is missing is no figure");
}

#[test]
fn figures_have_no_more_digits_than_they_need() {
    assert_eq!(
        (rounded(128.0), rounded(1.15), rounded(0.0), rounded(5.4321)),
        ("128".into(), "1.15".into(), "0".into(), "5.432".into())
    );
}

#[test]
fn names_choose_and_are_unique() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(run("no such target"), EXIT_MISSING);
}
