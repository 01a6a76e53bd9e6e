//! Files of callgrind, in small.

use super::*;

const OUT: &str = "\
# callgrind format
positions: line
events: Ir
summary: 60

ob=(1) /usr/lib/libc.so.6
fl=(1) ./malloc/malloc.c
fn=(1) malloc'push'main
10 5
+3 2
fe=(2) ./malloc/arena.c
* 1
cfi=(3) src/main.rs
cfn=(3) main
calls=7 20
* 900

fl=(3)
fn=(2) push'main
-4 20
fi=(1)
+1 30
fn=(1)
12 4
";

fn place(file: &str, calls: &str) -> Place {
    Place { file: file.to_owned(), calls: calls.to_owned() }
}

#[test]
fn each_cost_is_counted_once_where_it_is_spent() {
    let counts = parse(OUT).expect("a file as callgrind writes it");
    let expected = [
        (place("./malloc/malloc.c", "malloc'push'main"), 5 + 2 + 4),
        (place("./malloc/arena.c", "malloc'push'main"), 1),
        (place("src/main.rs", "push'main"), 20),
        (place("./malloc/malloc.c", "push'main"), 30),
    ];
    assert_eq!(counts, Counts::from(expected));
}

#[test]
fn a_line_that_is_not_understood_is_named() {
    assert_eq!(parse("fn=(1) main\n1 many\n"), Err(2));
    assert_eq!(parse("fl=(1) a\nfn=(7)\n"), Err(2), "a number without a name");
    assert_eq!(parse("calls=1 1\n"), Err(1), "a call without its cost");
}

#[test]
fn what_two_runs_have_in_common_cancels_out() {
    let (start, work, end) = (place("a", "start"), place("a", "work"), place("a", "end"));
    let fewer = Counts::from([(start.clone(), 100), (work.clone(), 30)]);
    let more = Counts::from([(start.clone(), 99), (work.clone(), 50), (end.clone(), 7)]);
    assert_eq!(difference(&fewer, &more), BTreeMap::from([(start, -1), (work, 20), (end, 7)]));
}
