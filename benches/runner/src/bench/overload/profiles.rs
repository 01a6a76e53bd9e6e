//! Which loads there are. A new one is a line in [`ALL`].

use super::ask::{Ask, Manner, Wire, Work};
use crate::bench::servers::Ability;

/// A load that is offered at several multiples of what fits.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The memory line of ours, in MiB.
    pub(super) line_mib: u64,
    pub(super) ask: Ask,
    /// Somebody asks for `/wake` as often, so many milliseconds apart.
    pub(super) wake_ms: Option<u64>,
}

impl Profile {
    /// Requests that tell how many may be there at once: how long a handler sleeps is no matter for that.
    pub(super) fn sample(&self) -> Ask {
        match self.ask.work {
            Work::Get { ms, .. } if self.ask.kind() == "sleep" && ms > SAMPLE_MS => {
                Ask { work: Work::Get { target: "/sleep/1000", ms: SAMPLE_MS }, ..self.ask.clone() }
            }
            _ => self.ask.clone(),
        }
    }

    /// What a server has to be able to do for it.
    pub(super) fn needs(&self) -> Option<Ability> {
        match self.ask.work {
            Work::WebSocket => Some(Ability::WebSocket),
            TINY => None,
            Work::Get { .. } | Work::Upload => Some(Ability::Handlers),
        }
    }
}

/// All loads, in the order of the report.
pub(super) static ALL: &[Profile] = &[
    profile("sleep", "handlers that sleep 2 s, HTTP/1.1 on kept connections, one address", SLEEP),
    profile("sleep-10", "the same from 10 addresses", Ask { addresses: 10, ..SLEEP }),
    profile("sleep-1000", "the same from 1,000 addresses", Ask { addresses: 1_000, ..SLEEP }),
    profile(
        "sleep-new",
        "handlers that sleep 2 s, each on a new connection, one address",
        Ask { wire: Wire::New, ..SLEEP },
    ),
    profile("sleep-h2", "handlers that sleep 2 s, HTTP/2, one address", Ask { wire: Wire::Http2, ..SLEEP }),
    profile(
        "sleep-returns",
        "as sleep; who is refused comes back when told to",
        Ask { manner: Manner::Returns, ..SLEEP },
    ),
    profile(
        "sleep-insists",
        "as sleep; who is refused comes back after 250 ms",
        Ask { manner: Manner::Insists, ..SLEEP },
    ),
    Profile { line_mib: 8, ..profile("sleep-8m", "as sleep, under a line of 8 MiB", SLEEP) },
    profile("compute", "handlers that compute for 10 ms, HTTP/1.1 on kept connections, one address", COMPUTE),
    profile("compute-new", "the same, each on a new connection", Ask { wire: Wire::New, ..COMPUTE }),
    profile("compute-h2", "the same on HTTP/2", Ask { wire: Wire::Http2, ..COMPUTE }),
    profile("stream", "answers of 32 KiB that are streamed over 800 ms, 10 addresses", Ask { addresses: 10, ..STREAM }),
    profile(
        "upload",
        "bodies of 64 KiB that take 700 ms to come, 10 addresses",
        Ask { work: Work::Upload, ..STREAM_10 },
    ),
    Profile {
        wake_ms: Some(1_000),
        ..profile(
            "poll",
            "long polls that another request ends, once a second, 10 addresses",
            Ask { work: POLL, ..STREAM_10 },
        )
    },
    profile("websocket", "WebSockets that stay for 2 s, 10 addresses", Ask { work: Work::WebSocket, ..STREAM_10 }),
    profile(
        "tiny",
        "small answers at once, HTTP/1.1 on kept connections, 10 addresses",
        Ask { work: TINY, ..STREAM_10 },
    ),
];

/// What `--quick` measures.
pub(super) const QUICK: [&str; 1] = ["sleep"];
/// Multiples of what fits.
pub(super) const FACTORS: [f64; 6] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
pub(super) const QUICK_FACTORS: [f64; 2] = [1.0, 5.0];

const SAMPLE_MS: u64 = 1_000;
const SLEEP: Ask = Ask::get("/sleep/2000", 2_000, Wire::Kept);
const COMPUTE: Ask = Ask::get("/compute/10", 10, Wire::Kept);
const STREAM: Ask = Ask::get("/stream", 800, Wire::Kept);
const STREAM_10: Ask = Ask { addresses: 10, ..STREAM };
const POLL: Work = Work::Get { target: "/poll", ms: 1_000 };
const TINY: Work = Work::Get { target: "/tiny", ms: 0 };

const fn profile(name: &'static str, what: &'static str, ask: Ask) -> Profile {
    Profile { name, what, line_mib: 3, ask, wake_ms: None }
}

/// Those that are named; if none is, all of them, or the few of a quick run. The error names what is unknown.
pub(super) fn chosen(names: &[String], quick: bool) -> Result<Vec<&'static Profile>, String> {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|profile| profile.name != *name)) {
        let known: Vec<&str> = ALL.iter().map(|profile| profile.name).collect();
        return Err(format!("no profile `{unknown}`; of overload there are {}", known.join(", ")));
    }
    let wanted = |profile: &&Profile| match names {
        [] => !quick || QUICK.contains(&profile.name),
        names => names.iter().any(|name| name == profile.name),
    };
    Ok(ALL.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    //! Names are chosen, and unknown ones told.

    use super::{ALL, QUICK, chosen};

    #[test]
    fn names_are_chosen() {
        let names = |names: &[&str], quick| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(&names, quick).map(|all| all.iter().map(|profile| profile.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[], false).map(|all| all.len()), Ok(ALL.len()));
        assert_eq!(names(&[], true), Ok(QUICK.to_vec()));
        assert_eq!(names(&["poll", "sleep"], true), Ok(vec!["sleep", "poll"]));
        assert!(names(&["poll", "nap"], false).is_err_and(|what| what.contains("`nap`") && what.contains("sleep-h2")));
    }
}
