//! Which runs there are, and what is made of what the programs print.

use super::bed::Via;
use super::programs::{CLIENTS, Language, chosen};
use super::report::{Row, Run, document, table};

#[test]
fn the_beginning_of_a_name_stands_for_all_that_begin_so() {
    let names = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
        chosen(&only).map(|clients| clients.iter().map(|client| client.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&[]).unwrap().len(), CLIENTS.len());
    assert_eq!(names(&["node-http2", "curl-h1"]).unwrap(), ["curl-h1", "node-http2", "node-http2-small"]);
    assert!(names(&["go"]).unwrap().iter().all(|name| name.starts_with("go-")));
    assert!(names(&["telnet"]).unwrap_err().contains("no client `telnet`"));
}

#[test]
fn every_language_has_a_client() {
    for language in Language::ALL {
        assert!(CLIENTS.iter().any(|client| client.language == language), "{language:?}");
    }
}

/// A whole run in which a kind has so many failures.
fn printed(failed: u32) -> String {
    format!("version go 1\nkind get 150 0\nkind early 10 {failed}\ndone\n")
}

#[test]
fn a_run_is_good_if_all_checks_hold_and_it_comes_to_its_end() {
    assert!(Run::new(&printed(0), "noise", Ok(())).is_good());
    let verdict = |stdout: &str, ended| Run::new(stdout, "early: reset", ended).verdict();
    assert_eq!(verdict(&printed(3), Ok(())), "160 passed, 3 failed: early 3 of 13\nearly: reset");
    assert!(verdict(&printed(0), Err("did not end in 9 s".to_owned())).contains("did not end"));
    assert!(verdict("kind get 150 0\n", Ok(())).contains("did not come to its end"));
    assert!(verdict("kind get 1 0\ndone\n", Ok(())).contains("too few checks"));
    assert!(verdict("Traceback\ndone\n", Ok(())).contains("a line that says nothing: Traceback"));
    assert!(verdict("kind get many 0\ndone\n", Ok(())).contains("a line that says nothing"));
}

#[test]
fn the_table_has_a_line_for_each_way_and_a_column_for_each_driver() {
    let row =
        |via, driver, failed| Row { client: &CLIENTS[2], via, driver, run: Run::new(&printed(failed), "", Ok(())) };
    let rows = [row(Via::Direct, "uring", 0), row(Via::Nginx, "uring", 2), row(Via::Direct, "mio", 0)];
    let text = table(&rows);
    assert_eq!(text.lines().count(), 3, "{text}");
    let words = |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(1), "go-net-http-h1 go 1 direct 160 160");
    assert_eq!(words(2), "go-net-http-h1 go 1 nginx 160 / 2 failed -");
    let document = document(&rows);
    assert!(document.contains("482 checks, of which 2 failed"), "{document}");
    assert!(document.contains("| go-net-http-h1 | go 1 | direct | 160 | 160 |"), "{document}");
    assert!(document.contains("* go-net-http-h1, nginx, uring: early 2 of 12"), "{document}");
}
