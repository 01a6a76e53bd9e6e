//! Who pays for which instruction, and what the table shows.

use super::*;

fn place(file: &str, calls: &str) -> Place {
    Place { file: file.to_owned(), calls: calls.to_owned() }
}

#[test]
fn a_line_is_paid_for_by_its_crate_or_else_by_the_next_caller_that_is_ours() {
    let pool_inlined = place("/clone/crates/pool/src/pool.rs", "plimsoll_http::output::Output::reserve'main");
    assert_eq!(part(&pool_inlined), Some("pool"));
    let std_inlined = place("/rustc/library/core/src/option.rs", "plimsoll_http::output::Output::reserve'main");
    assert_eq!(part(&std_inlined), Some("http"));
    let libc = place("./string/memmove.S", "memcpy'core::ptr::write'<plimsoll_codec::h1::Fields>::put'counted::main");
    assert_eq!(part(&libc), Some("codec"));
    assert_eq!(part(&place("./elf/dl-lookup.c", "do_lookup'_dl_start")), Some("other"));
}

#[test]
fn clients_and_the_simulated_kernel_are_left_out() {
    let client =
        place("x/crates/pool/src/pool.rs", "plimsoll_pool::pool::Pool::try_copy'counted::server::client_turn'main");
    let kernel = place("malloc.c", "malloc'<plimsoll_reactor::sim::node::Sim>::enter'plimsoll_runtime::worker::turn");
    assert_eq!((part(&client), part(&kernel)), (None, None));
}

#[test]
fn the_ledger_is_a_part_of_the_pool() {
    let ledger = place("/clone/crates/pool/src/account.rs", "plimsoll_pool::lease::Lease::acquire");
    let inlined =
        place("library/core/src/sync/atomic.rs", "core::ptr::drop_in_place<plimsoll_pool::lease::Lease>'main");
    let elsewhere =
        place("library/core/src/sync/atomic.rs", "plimsoll_codec::f'plimsoll_pool::pool::Pool::try_acquire");
    let lease = place("/clone/crates/pool/src/lease.rs", "plimsoll_pool::lease::Lease::acquire");
    let codec = place("/clone/crates/codec/src/h1/head.rs", "plimsoll_codec::h1::head::parse_head");
    let cost =
        cost("get", &BTreeMap::from([(ledger, 15), (inlined, 5), (elsewhere, 100), (lease, 180), (codec, 1_700)]), 10);
    assert_eq!(cost.total(), 200.0);
    assert_eq!(cost.shares(), (0.1, 0.01));
}

#[test]
fn the_table_shows_each_change_and_a_baseline_from_elsewhere() {
    let costs = [
        Cost { kind: "get".to_owned(), parts: BTreeMap::from([("codec", 110.0)]), ledger: 0.0 },
        Cost { kind: "echo".to_owned(), parts: BTreeMap::from([("codec", 50.0)]), ledger: 0.0 },
    ];
    let before = Baseline::of(&[Cost { parts: BTreeMap::from([("codec", 100.0)]), ..costs[0].clone() }], "elsewhere");
    let text = table(&costs, &before);
    assert!(text.contains("+10.0 (+10.00 %)") && text.contains(" new "), "{text}");
    assert!(text.contains("the baseline is from elsewhere: elsewhere"), "{text}");
}
