//! The sums.

use super::*;

fn plan(line: MemoryLimit, container: Option<ContainerLimit>) -> Plan {
    Plan { line, container, kernel_per_connection: 4_000, rows: Vec::new() }
        .with(Part::Apart, "other", 7)
        .with(Part::Active, "output", 900)
        .with(Part::Fixed, "rings", 576)
        .with(Part::Parked, "entry", 100)
        .with(Part::Fixed, "nothing", 0)
        .with(Part::Fixed, "tables", 1_024)
}

#[test]
fn the_text_is_a_sum() {
    let plan = plan(MemoryLimit::bytes(11_600), None);
    assert_eq!(
        plan.to_string(),
        "rings 576\ntables 1024\nentry 100\noutput 900\nfixed 1600\nparked_connection 100\nactive_exchange 1000\n\
         kernel_per_connection 4000\nparked_max 100\nactive_max 10\nother 7\n"
    );
}

#[test]
fn a_container_bounds_how_many_fit_by_the_kernels_part() {
    // 80 % of 100,000 less the line are 68,400 bytes: 17 connections' kernel parts.
    let plan = plan(MemoryLimit::bytes(11_600), Some(ContainerLimit { bytes: 100_000 }));
    assert_eq!((plan.parked_max(), plan.active_max()), (17, 10));
}

#[test]
fn a_line_without_room_fits_nobody() {
    let plan = plan(MemoryLimit::bytes(1_000), None);
    assert_eq!((plan.parked_max(), plan.active_max()), (0, 0));
}

#[test]
#[should_panic(expected = "twice")]
fn a_name_is_there_once() {
    let _plan = plan(MemoryLimit::mib(1), None).with(Part::Active, "entry", 1);
}
