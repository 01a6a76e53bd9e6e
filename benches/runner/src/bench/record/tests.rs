//! A record comes back from its JSON, and ratios are taken in each round.

use super::{
    Absent, CPU, CaseFigures, CaseRecord, CaseResult, ProfileRecord, RATE, Record, Sample, Series, ServerRecord,
};
use crate::bench::placement::Machine;
use crate::bench::wrk::Errors;

fn series(server: &str, cpu: &[f64]) -> Series {
    let sample = |(index, &cpu_us_per_request): (usize, &f64)| Sample {
        round: index as u32 + 1,
        requests_per_second: 1e6 / cpu_us_per_request,
        cpu_us_per_request,
        kernel_share: Some(0.875),
        p50_us: Some(4.0),
        p99_us: None,
        peak_rss_bytes: 2 << 20,
        pss_bytes: 1 << 20,
    };
    Series {
        server: server.to_owned(),
        missing: None,
        errors: Errors::default(),
        samples: cpu.iter().enumerate().map(sample).collect(),
    }
}

/// A small record with everything that can be in one.
pub(in crate::bench) fn record() -> Record {
    let machine = Machine {
        kernel: "6.1.0".to_owned(),
        cpu: "Some <CPU>".to_owned(),
        memory_mib: 2048,
        cores: 2,
        server_core: Some(1),
        load_core: Some(0),
    };
    let server = |name: &str, floor: &str| ServerRecord {
        name: name.to_owned(),
        version: Some("1.2".to_owned()),
        floor: floor.to_owned(),
    };
    let mut nginx = series("nginx", &[]);
    nginx.missing = Some("it counts no bytes".to_owned());
    let ours = series("plimsoll-uring", &[4.0, 5.0]);
    let profile = ProfileRecord {
        name: "keep-alive-64".to_owned(),
        what: "64 connections".to_owned(),
        rounds: 2,
        seconds: 1,
        load_average: Some(0.25),
        upload_bytes: None,
        series: vec![ours, series("floor-uring", &[2.0, 2.0]), series("hyper", &[8.0, 10.0]), nginx],
    };
    let figures = CaseFigures {
        before_rss_bytes: 2 << 20,
        before_anonymous_bytes: 1000,
        held_anonymous_bytes: Some(3000),
        peak_rss_bytes: 3 << 20,
        peak_pss_bytes: 1 << 20,
        after_rss_bytes: 3 << 20,
        seconds: 1.5,
        requests: 10,
        refused: 0,
        closed: 1,
        wrong: 0,
        unfinished: 0,
    };
    let result = |server: &str, missing: Option<&str>, figures| CaseResult {
        server: server.to_owned(),
        missing: missing.map(str::to_owned),
        figures,
    };
    let died = "died: signal: 9 (it said nothing)";
    let case = CaseRecord {
        name: "parked".to_owned(),
        what: "they wait".to_owned(),
        connections: 10,
        results: vec![result("plimsoll-uring", None, Some(figures)), result("hyper", Some(died), None)],
    };
    Record {
        servers: vec![server("plimsoll-uring", "floor-uring"), server("hyper", "floor-epoll")],
        absent: vec![Absent { server: "h2o".to_owned(), why: "no h2o: apt-get install h2o".to_owned() }],
        profiles: vec![profile],
        memory: vec![case],
        ..Record::new(machine)
    }
}

#[test]
fn a_record_comes_back_from_its_json() {
    let record = record();
    assert_eq!(Record::parse(&record.json().unwrap()).unwrap(), record);
    assert!(Record::parse("{}").is_err());
    let old = Record { format: 1, ..record };
    assert!(Record::parse(&old.json().unwrap()).unwrap_err().contains("form 1"));
}

#[test]
fn ratios_are_to_the_base_in_the_same_round() {
    let record = record();
    let profile = &record.profiles[0];
    let ours = &profile.series[0];
    assert_eq!(profile.ratio_to_baseline(ours, CPU), Some(0.5));
    assert_eq!(profile.ratio_to_baseline(ours, RATE), Some(2.0));
    assert_eq!(profile.ratio(ours, "floor-uring", CPU), Some(2.25));
    assert_eq!(profile.ratio(ours, "nobody", CPU), None);
    // 2.5 in the even round, 2 in the odd one.
    let uncertainty = profile.uncertainty(ours, "floor-uring", CPU).unwrap();
    assert!((uncertainty - 0.5 / 2.25).abs() < 1e-9, "{uncertainty}");
}

#[test]
fn rounds_that_only_one_has_do_not_count() {
    let mut record = record();
    let profile = &mut record.profiles[0];
    profile.series[0].samples.remove(0);
    assert_eq!(profile.ratio_to_baseline(&profile.series[0], CPU), Some(0.5));
    profile.series[0].samples[0].cpu_us_per_request = 2.5;
    assert_eq!(profile.ratio_to_baseline(&profile.series[0], CPU), Some(0.25));
}

#[test]
fn a_newer_run_replaces_what_it_measured() {
    let (old, mut newer) = (record(), record());
    newer.memory.clear();
    newer.profiles[0].rounds = 7;
    newer.absent.clear();
    newer.servers.push(ServerRecord { name: "h2o".to_owned(), version: None, floor: "floor-epoll".to_owned() });
    let order = |name: &str| usize::from(name != "h2o");
    let merged = old.clone().merge(newer.clone(), order).unwrap();
    assert_eq!((merged.profiles.len(), merged.profiles[0].rounds, merged.memory.len()), (1, 7, 1));
    assert_eq!((merged.servers.len(), merged.servers[0].name.as_str(), merged.absent.len()), (3, "h2o", 0));
    newer.machine.cores = 64;
    assert!(old.merge(newer, order).unwrap_err().contains("another machine"));
}

#[test]
fn a_held_connection_costs_what_came_with_it() {
    let record = record();
    let figures = record.memory[0].results[0].figures.unwrap();
    assert_eq!((figures.bytes_per_connection(10), figures.errors()), (Some(200.0), 1));
}
