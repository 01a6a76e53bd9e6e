//! What the relay connects to: an arena that dies and comes back, at the same address.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::child::Running;
use crate::random::Random;

/// The arena behind the relay.
#[derive(Debug)]
pub(super) struct Target {
    driver: &'static str,
    address: SocketAddr,
    running: Mutex<Option<Running>>,
    /// Odd while it is away.
    generation: AtomicU64,
}

impl Target {
    pub(super) fn start(driver: &'static str) -> Result<Target, String> {
        let running = spawn(driver, LISTEN)?;
        let address = running.address();
        Ok(Target { driver, address, running: Mutex::new(Some(running)), generation: AtomicU64::new(0) })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes whenever it goes and comes.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Whether it has been there all the time since its generation was asked for.
    pub(super) fn has_stayed(&self, since: u64) -> bool {
        since.is_multiple_of(2) && self.generation() == since
    }

    /// Ends it, as a crash does or as an operator does, and starts it again after a while; how often.
    pub(super) fn restart_until(&self, over: Instant, random: &mut Random) -> Result<u64, String> {
        let mut restarts = 0;
        loop {
            let pause = Duration::from_millis(1_500 + random.below(3_000) as u64);
            if Instant::now() + pause >= over {
                return Ok(restarts);
            }
            thread::sleep(pause);
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            self.generation.fetch_add(1, Ordering::SeqCst);
            match running.take() {
                Some(target) if random.below(2) == 0 => target.stop()?,
                Some(target) => target.kill(),
                None => {}
            }
            thread::sleep(Duration::from_millis(random.below(500) as u64));
            *running = Some(self.spawn_again()?);
            self.generation.fetch_add(1, Ordering::SeqCst);
            restarts += 1;
        }
    }

    /// Its port may be held for a moment by what the one before has left to the kernel.
    fn spawn_again(&self) -> Result<Running, String> {
        let mut tries = 0;
        loop {
            match spawn(self.driver, &self.address.to_string()) {
                Err(why) if tries < STARTS_MAX && why.contains("in use") => {
                    tries += 1;
                    thread::sleep(START_PAUSE);
                }
                started => return started,
            }
        }
    }

    /// Ends it for good.
    pub(super) fn stop(self) -> Result<(), String> {
        let running = self.running.into_inner().unwrap_or_else(PoisonError::into_inner);
        running.map_or(Ok(()), Running::stop)
    }
}

fn spawn(driver: &str, listen: &str) -> Result<Running, String> {
    let flags = ["--listen", listen, "--driver", driver, "--workers", "1", "--memory", "16MiB"];
    Running::start("arena", &format!("target {driver}"), &flags.map(str::to_owned))
}

/// It is started again so often when its port is in use, with so long a pause before each try.
const STARTS_MAX: u32 = 50;
const START_PAUSE: Duration = Duration::from_millis(200);
/// An address of its own: no client's port can be in the way when it comes back.
const LISTEN: &str = "127.0.0.77:0";
