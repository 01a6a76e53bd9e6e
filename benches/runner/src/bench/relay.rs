//! `cargo xtask bench --relay`: ours beside nginx (stream), haproxy, a tokio copy loop and a bare loop over two
//! sockets.
//!
//! | column | what is done | what is counted |
//! |---|---|---|
//! | bulk | one connection sends 1 GiB through the relay | CPU seconds of the relay for 10^9 bytes |
//! | messages | 64 connections, a message of 64 bytes there and back on each, again and again | CPU microseconds of the relay for a round trip |
//! | parked | 5,000 pairs of connections that have sent one message each way, through `floor-splice` a third of that | anonymous bytes of the relay for a pair |
//!
//! The relays take turns, round by round; each has one core, the load another.

use std::time::Duration;

use super::Extent;
use super::figures::{Spread, median_ratio};
use super::pairs::{self, Back};
use super::placement::{self, Placement};
use super::process::Running;
use super::servers::{self, Server};
use crate::cli::{EXIT_FAILED, EXIT_MISSING, EXIT_OK};

/// What was measured of a relay, round by round.
#[derive(Default)]
struct Figures {
    bulk: Vec<f64>,
    messages: Vec<f64>,
    parked: Vec<f64>,
    failed: Option<String>,
}

/// Measures and prints the table.
pub(super) fn run(extent: &Extent, profiles: &[String]) -> u8 {
    if let Some(install) = placement::missing() {
        eprintln!("{install}");
        return EXIT_MISSING;
    }
    if let Some(unknown) = profiles.iter().find(|name| !PROFILES.contains(&name.as_str())) {
        eprintln!("no profile `{unknown}`; of relays there are {}", PROFILES.join(", "));
        return EXIT_MISSING;
    }
    match measure(extent, |name| profiles.is_empty() || profiles.iter().any(|profile| profile == name)) {
        Ok(clean) => {
            if clean {
                EXIT_OK
            } else {
                EXIT_FAILED
            }
        }
        Err(what) => {
            eprintln!("{what}");
            EXIT_FAILED
        }
    }
}

fn measure(extent: &Extent, wanted: impl Fn(&str) -> bool) -> Result<bool, String> {
    let all: Vec<_> = servers::RELAYS.iter().collect();
    let relays = servers::build(&all, |relay, why| eprintln!("{} is left out: {why}", relay.name))?;
    std::fs::create_dir_all(super::dir().join("servers")).map_err(|error| error.to_string())?;
    placement::raise_open_files(pairs::OPEN_FILES);
    let placement = Placement::here()?;
    placement.stay_away();
    let bytes = BULK_BYTES / u64::from(extent.part);
    let mut figures: Vec<Figures> = relays.iter().map(|_| Figures::default()).collect();
    let (bulk, messages) = (wanted("bulk"), wanted("messages"));
    for round in 0..if bulk || messages { extent.rounds as usize } else { 0 } {
        for turn in 0..relays.len() {
            let at = (round + turn) % relays.len();
            let (relay, figures) = (relays[at], &mut figures[at]);
            eprintln!("round {} of {}: {}", round + 1, extent.rounds, relay.name);
            if let Err(why) = busy(relay, &placement, (bulk, bytes), (messages, extent.seconds), figures) {
                figures.failed = Some(why);
            }
        }
    }
    let pairs = pairs::connections(2 * PAIRS / extent.part as usize) / 2;
    for (relay, figures) in relays.iter().zip(&mut figures) {
        let pairs = if relay.name == SPLICING { pairs / PIPED } else { pairs };
        for _ in 0..if wanted("parked") { extent.rounds.min(PARKED_ROUNDS) } else { 0 } {
            eprintln!("parked: {}", relay.name);
            match park(relay, &placement, pairs) {
                Ok(bytes) => figures.parked.push(bytes),
                Err(why) => figures.failed = Some(why),
            }
        }
    }
    print!("{}", table(&relays, &figures));
    for (relay, figures) in relays.iter().zip(&figures) {
        if let Some(why) = &figures.failed {
            println!("{}: {why}", relay.name);
        }
    }
    Ok(figures.iter().all(|figures| figures.failed.is_none()))
}

fn busy(
    relay: &'static Server,
    placement: &Placement,
    (bulk, bytes): (bool, u64),
    (messages, seconds): (bool, u32),
    figures: &mut Figures,
) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{}: {error}", relay.name);
    let back = Back::new().map_err(said)?;
    let target = back.address().map_err(said)?.to_string();
    let running = Running::start(relay, &target, placement)?;
    if bulk {
        let mut one = back.open(running.address(), 1).map_err(said)?;
        // Its buffers have their size, and the connection its windows.
        one[0].transfer(bytes / 8).map_err(said)?;
        let before = running.cpu()?;
        one[0].transfer(bytes).map_err(said)?;
        let used = running.cpu()?.since(&before);
        figures.bulk.push(used as f64 / bytes as f64);
    }
    if messages {
        let pairs = back.open(running.address(), CHATTERERS).map_err(said)?;
        let (_, pairs) = pairs::chatter(pairs, MESSAGE_BYTES, Duration::from_millis(200)).map_err(said)?;
        let before = running.cpu()?;
        let (rounds, _pairs) =
            pairs::chatter(pairs, MESSAGE_BYTES, Duration::from_secs(u64::from(seconds))).map_err(said)?;
        let used = running.cpu()?.since(&before);
        figures.messages.push(used as f64 / 1_000.0 / rounds.max(1) as f64);
    }
    Ok(())
}

fn park(relay: &'static Server, placement: &Placement, count: usize) -> Result<f64, String> {
    let said = |error: std::io::Error| format!("{}: {error}", relay.name);
    let back = Back::new().map_err(said)?;
    let target = back.address().map_err(said)?.to_string();
    let running = Running::start(relay, &target, placement)?;
    // What is allocated once is there then.
    let mut first = back.open(running.address(), WARM_UP).map_err(said)?;
    for pair in &mut first {
        pair.ping(&[b'w'; MESSAGE_BYTES]).map_err(said)?;
    }
    drop(first);
    std::thread::sleep(SETTLE);
    let before = running.memory()?.anonymous_bytes;
    let mut open = back.open(running.address(), count).map_err(said)?;
    for pair in &mut open {
        pair.ping(&[b'p'; MESSAGE_BYTES]).map_err(said)?;
    }
    std::thread::sleep(SETTLE);
    let after = running.memory()?.anonymous_bytes;
    Ok((after as f64 - before as f64) / count as f64)
}

fn table(relays: &[&'static Server], figures: &[Figures]) -> String {
    let mut text = format!(
        "{:<16} {:>16} {:>9} {:>9} {:>16} {:>9} {:>9} {:>14}\n",
        "relay", "bulk, s/GB", "of nginx", "of floor", "messages, us", "of tokio", "of floor", "parked, bytes"
    );
    let of = |name: &str| relays.iter().position(|relay| relay.name == name).map(|at| &figures[at]);
    for (relay, own) in relays.iter().zip(figures) {
        let ratio = |series: fn(&Figures) -> &Vec<f64>, to: &str| {
            let base = of(to).map(series).filter(|base| base.len() == series(own).len());
            let ratio = base.and_then(|base| median_ratio(series(own).iter().copied(), base.iter().copied()));
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
        };
        let shown = |series: &[f64], digits: usize| {
            let spread = Spread::of(series.iter().copied());
            spread.map_or("-".to_owned(), |spread| format!("{:.digits$}", spread.median))
        };
        text.push_str(&format!(
            "{:<16} {:>16} {:>9} {:>9} {:>16} {:>9} {:>9} {:>14}\n",
            relay.name,
            shown(&own.bulk, 3),
            ratio(|figures| &figures.bulk, "nginx"),
            ratio(|figures| &figures.bulk, "floor"),
            shown(&own.messages, 2),
            ratio(|figures| &figures.messages, "tokio"),
            ratio(|figures| &figures.messages, "floor"),
            shown(&own.parked, 0),
        ));
    }
    text
}

const PROFILES: [&str; 3] = ["bulk", "messages", "parked"];
const BULK_BYTES: u64 = 1 << 30;
const CHATTERERS: usize = 64;
const MESSAGE_BYTES: usize = 64;
const PAIRS: usize = 5_000;
const PARKED_ROUNDS: u32 = 2;
/// It has a pipe for each direction: six descriptors for a pair, where others have two.
const SPLICING: &str = "floor-splice";
const PIPED: usize = 3;
const WARM_UP: usize = 100;
/// A relay of ours gives memory back after two seconds.
const SETTLE: Duration = Duration::from_millis(3_500);
