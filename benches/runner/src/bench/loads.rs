//! The kinds of load: profiles, which are about speed, and memory cases. A new one is a line here.

use std::time::Duration;

use super::servers::{Ability, BLOB_BYTES};
use super::swarm::plan::{Plan, Reads, Then};

/// A load that goes on for some time, in rounds.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    /// What the report says of it.
    pub(super) what: &'static str,
    /// Of the requests.
    pub(super) target: &'static str,
    pub(super) generator: Generator,
    pub(super) needs: Option<Ability>,
}

/// What makes the load of a profile.
#[derive(Debug)]
pub(super) enum Generator {
    Wrk {
        connections: u32,
        /// Requests that a connection sends at once; at least 1.
        depth: u32,
    },
    /// HTTP/2 with prior knowledge.
    H2load {
        connections: u32,
        /// Requests that wait for an answer on each connection at a time; at least 1.
        streams: u32,
    },
    Swarm(Plan),
}

/// A load that is looked at for what it does to the server's memory, each at a fresh process.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) plan: Plan,
    pub(super) needs: Option<Ability>,
}

/// The profiles, in the order of the report.
pub(super) static PROFILES: &[Profile] = &[
    Profile {
        name: "keep-alive-64",
        what: "64 connections, GET /pipeline, one request at a time",
        target: PIPELINE,
        generator: Generator::Wrk { connections: 64, depth: 1 },
        needs: None,
    },
    Profile {
        name: "keep-alive-512",
        what: "512 connections, GET /pipeline, one request at a time",
        target: PIPELINE,
        generator: Generator::Wrk { connections: 512, depth: 1 },
        needs: None,
    },
    Profile {
        name: "pipelined-16",
        what: "64 connections, GET /pipeline, 16 requests at once",
        target: PIPELINE,
        generator: Generator::Wrk { connections: 64, depth: 16 },
        needs: None,
    },
    Profile {
        name: "short-10",
        what: "64 connections at a time, each closed by the client after 10 GET /pipeline",
        target: PIPELINE,
        generator: Generator::Swarm(Plan { connections: 64, requests: 10, then: Then::Reopen, ..Plan::GET }),
        needs: None,
    },
    Profile {
        name: "json-50",
        what: "64 connections, GET /json/50?m=1: 50 items through serde_json for each request (the floors send a fixed answer)",
        target: JSON,
        generator: Generator::Wrk { connections: 64, depth: 1 },
        needs: Some(Ability::Json),
    },
    Profile {
        name: "upload-20m",
        what: "16 connections, POST /upload of 20 MiB",
        target: UPLOAD,
        generator: Generator::Swarm(Plan { connections: 16, target: UPLOAD, requests: u32::MAX, ..UPLOADS }),
        needs: Some(Ability::Upload),
    },
    Profile {
        name: "h2-streams-32",
        what: "HTTP/2: 32 connections, GET /pipeline, 32 streams at a time on each",
        target: PIPELINE,
        generator: Generator::H2load { connections: 32, streams: 32 },
        needs: Some(Ability::Http2),
    },
    Profile {
        name: "h2-streams-100",
        what: "HTTP/2: 32 connections, GET /pipeline, 100 streams at a time on each",
        target: PIPELINE,
        generator: Generator::H2load { connections: 32, streams: 100 },
        needs: Some(Ability::Http2),
    },
    Profile {
        name: "websocket-512",
        what: "512 WebSockets, messages of 64 bytes that come back, one at a time",
        target: WEBSOCKET,
        generator: Generator::Swarm(Plan { connections: 512, requests: u32::MAX, opening_max: 512, ..MESSAGES }),
        needs: Some(Ability::WebSocket),
    },
    Profile {
        name: "websocket-4096",
        what: "4,096 WebSockets, messages of 64 bytes that come back, one at a time",
        target: WEBSOCKET,
        generator: Generator::Swarm(Plan { connections: 4_096, requests: u32::MAX, opening_max: 4_096, ..MESSAGES }),
        needs: Some(Ability::WebSocket),
    },
];

/// The memory cases, in the order of the report.
pub(super) static CASES: &[Case] = &[
    Case {
        name: "parked",
        what: "10,000 keep-alive connections that have done a request and wait",
        plan: Plan { connections: 10_000, then: Then::Hold(Duration::from_millis(1500)), ..Plan::GET },
        needs: None,
    },
    Case {
        name: "half-head",
        what: "10,000 connections that have sent half of a request head",
        plan: Plan { connections: 10_000, half: true, then: Then::Hold(Duration::from_millis(1500)), ..Plan::GET },
        needs: None,
    },
    Case {
        name: "slow-readers",
        what: "1,000 connections that read 1 MiB in pieces of 4 KiB, 80 KiB/s for 3 s and then as fast as they can",
        plan: Plan {
            connections: 1_000,
            target: "/blob/1048576",
            reads: Reads::Slowly {
                piece_bytes: 4096,
                every: Duration::from_millis(50),
                during: Duration::from_secs(3),
            },
            ..Plan::GET
        },
        needs: Some(Ability::Blob),
    },
    Case {
        name: "uploads",
        what: "200 uploads of 20 MiB at once",
        plan: Plan { connections: 200, target: UPLOAD, ..UPLOADS },
        needs: Some(Ability::Upload),
    },
    Case {
        name: "unread-pipelines",
        what: "3,000 connections that each send 64 GET /json/50 at once and do not read for 3 s",
        plan: Plan {
            connections: 3_000,
            target: JSON,
            pipelined: 64,
            reads: Reads::Never,
            then: Then::Hold(Duration::from_secs(3)),
            ..Plan::GET
        },
        needs: Some(Ability::Json),
    },
    Case {
        name: "burst",
        what: "5,000 connections at once, 20 requests each, then all closed: what stays",
        plan: Plan { connections: 5_000, requests: 20, opening_max: 5_000, ..Plan::GET },
        needs: None,
    },
    Case {
        name: "websockets",
        what: "10,000 WebSockets that have had a message of 64 bytes back and wait",
        plan: Plan { connections: 10_000, then: Then::Hold(Duration::from_millis(1500)), ..MESSAGES },
        needs: Some(Ability::WebSocket),
    },
];

/// Loads of `--pool` alone.
pub(super) static OWN: &[Case] = &[
    Case {
        name: "active",
        what: "5,000 connections at once, each with a handler that waits for 2 s, then all closed",
        plan: Plan { connections: 5_000, target: "/delay/2000", opening_max: 5_000, ..Plan::GET },
        needs: None,
    },
    Case {
        name: "unread-blobs",
        what: "1,000 connections that ask for 1 MiB and do not read for 3 s",
        plan: Plan {
            connections: 1_000,
            target: "/blob/1048576",
            reads: Reads::Never,
            then: Then::Hold(Duration::from_secs(3)),
            ..Plan::GET
        },
        needs: Some(Ability::Blob),
    },
    Case {
        name: "greedy",
        what: "800 connections of one address that each ask for 256 KiB, 60 times",
        plan: Plan {
            connections: 800,
            addresses: 1,
            target: "/blob/262144",
            requests: 60,
            opening_max: 800,
            ..Plan::GET
        },
        needs: Some(Ability::Blob),
    },
];

/// A case of [`CASES`] or [`OWN`].
pub(super) fn case(name: &str) -> Result<&'static Case, String> {
    let found = CASES.iter().chain(OWN).find(|case| case.name == name);
    found.ok_or_else(|| format!("there is no memory case {name}"))
}

const WEBSOCKET: &str = "/ws";
const MESSAGES: Plan = Plan { target: WEBSOCKET, message_bytes: Some(64), ..Plan::GET };
const PIPELINE: &str = "/pipeline";
const JSON: &str = "/json/50?m=1";
const UPLOAD: &str = "/upload";
const UPLOADS: Plan = Plan { upload_bytes: Some(20 << 20), ..Plan::GET };

const _: () = assert!(BLOB_BYTES == 1_048_576, "the target above says so");

/// The profiles and cases that are named, or all if none is. The error names what is unknown.
pub(super) fn chosen(names: &[String]) -> Result<(Vec<&'static Profile>, Vec<&'static Case>), String> {
    let all = || PROFILES.iter().map(|profile| profile.name).chain(CASES.iter().map(|case| case.name));
    if let Some(unknown) = names.iter().find(|name| !all().any(|known| known == *name)) {
        return Err(format!("no profile `{unknown}`; there are {}", all().collect::<Vec<_>>().join(", ")));
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|named| named == name);
    let profiles = PROFILES.iter().filter(|profile| wanted(profile.name)).collect();
    Ok((profiles, CASES.iter().filter(|case| wanted(case.name)).collect()))
}

/// A few connections that do some requests, before a memory case.
static WARM_UP: Plan = Plan { connections: 200, requests: 3, ..Plan::GET };

/// The plan of a profile or case, by its name, or of the `warm-up` of any server.
pub(super) fn plan(name: &str) -> Option<&'static Plan> {
    if name == "warm-up" {
        return Some(&WARM_UP);
    }
    let profile = PROFILES.iter().find(|profile| profile.name == name).map(|profile| &profile.generator);
    match profile {
        Some(Generator::Swarm(plan)) => Some(plan),
        Some(Generator::Wrk { .. } | Generator::H2load { .. }) => None,
        None => case(name).ok().map(|case| &case.plan),
    }
}

#[cfg(test)]
mod tests {
    //! Names are unique and choose.

    use super::{CASES, OWN, PROFILES, chosen, plan};

    #[test]
    fn names_choose() {
        let (profiles, cases) = chosen(&[]).unwrap();
        assert_eq!((profiles.len(), cases.len()), (PROFILES.len(), CASES.len()));
        let (profiles, cases) = chosen(&["parked".to_owned(), "json-50".to_owned()]).unwrap();
        assert_eq!((profiles[0].name, cases[0].name, profiles.len(), cases.len()), ("json-50", "parked", 1, 1));
        assert!(chosen(&["parked".to_owned(), "h3".to_owned()]).unwrap_err().starts_with("no profile `h3`; there are"));
    }

    #[test]
    fn names_are_unique_and_have_plans() {
        let mut names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        names.extend(CASES.iter().chain(OWN).map(|case| case.name));
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(plan("short-10").is_some() && plan("active").is_some() && plan("json-50").is_none());
    }
}
