//! Properties: each figure comes from its own line, in bytes; memory of our own is counted as anonymous and is gone
//! when it was given back; what is not understood is nothing and not a wrong figure.

use super::Resident;

const STATUS: &str = "Name:\tRssAnon:\nVmHWM:\t    8436 kB\nVmRSS:\t    8430 kB\nRssAnon:\t    1288 kB\nRssFile:\t    7138 kB\nRssShmem:\t       4 kB\n";

#[test]
fn each_figure_comes_from_its_line() {
    let resident = Resident::parse(STATUS).expect("all are there");
    let text = "resident anonymous=1318912 file=7309312 shared=4096 peak=8638464";
    assert_eq!(resident.to_string(), text);
}

#[test]
fn what_is_not_understood_is_nothing() {
    assert_eq!(Resident::parse(""), None);
    for name in ["RssAnon", "RssFile", "RssShmem", "VmHWM"] {
        let without = STATUS.replace(&format!("{name}:\t"), "Other:\t");
        assert_eq!(Resident::parse(&without), None, "{name}");
    }
    for value in ["1288", "-1 kB", "99999999999999999999 kB", "18014398509481984 kB", "1288 MB"] {
        assert_eq!(Resident::parse(&STATUS.replace("1288 kB", value)), None, "{value}");
    }
}

#[test]
fn memory_of_our_own_is_anonymous() {
    // Far more than what tests beside this one hold.
    const BYTES: usize = 256 << 20;
    const SLACK: u64 = 64 << 20;
    let before = Resident::of_process().expect("procfs");
    let held = vec![1_u8; BYTES];
    let with = Resident::of_process().expect("procfs");
    assert!(with.anonymous_bytes + SLACK > before.anonymous_bytes + BYTES as u64, "{before} {with}");
    assert!(with.file_bytes < before.file_bytes + SLACK && with.peak_bytes >= with.anonymous_bytes, "{before} {with}");
    drop(std::hint::black_box(held));
    let after = Resident::of_process().expect("procfs");
    assert!(after.anonymous_bytes + BYTES as u64 - SLACK < with.anonymous_bytes + SLACK, "{with} {after}");
    assert!(after.peak_bytes >= with.anonymous_bytes, "the peak stays");
}
