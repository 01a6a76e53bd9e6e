//! Relays in a simulated world: pairs of peers that send what a seed says, at their own pace, and end their halves in
//! any order. Some pairs flood: both peers send more than sockets and relay hold before either reads, so that both
//! directions of the relay wait for room at once.
//!
//! In a clean world every byte arrives, in order, and the counts of the relay are those of the peers. In one with
//! faults what arrives is a beginning of what was sent. In both every relay ends, and nothing is left of it.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll::io::{self, Relay, RelayEnd, Relayed};
use plimsoll::net::{TcpListener, TcpStream};
use plimsoll::{JoinHandle, sleep, spawn, timeout};

use crate::plan::Rng;
use crate::world::{self, Outcome, World};

/// What one peer of a pair does.
#[derive(Clone, Debug)]
struct Part {
    /// Sends so many bytes, in pieces of so many.
    bytes: usize,
    piece: usize,
    send_pause: Duration,
    /// Reads nothing before, though it sends.
    read_after: Duration,
    read_pause: Duration,
    /// Goes away when it has got so many.
    drop_after: Option<usize>,
}

impl Part {
    fn new(rng: &mut Rng) -> Self {
        let scale = rng.pick(&[0, 60, 3_000, 40_000, 200_000]);
        let pause = |rng: &mut Rng| Duration::from_micros(rng.pick(&[0, 0, 0, 50, 900]));
        Self {
            bytes: rng.below(scale + 1) as usize,
            piece: rng.between(1, 9_000) as usize,
            send_pause: pause(rng),
            read_after: Duration::ZERO,
            read_pause: pause(rng),
            drop_after: (rng.below(10) == 0).then(|| rng.below(20_000) as usize),
        }
    }

    /// One that fills everything between the peers before it reads.
    fn flood(rng: &mut Rng) -> Self {
        let bytes = HELD_BYTES_MAX + rng.below(100_000) as usize;
        Self { bytes, send_pause: Duration::ZERO, read_after: FLOOD_TIME, ..Self::new(rng) }
    }

    /// Both peers of a pair; every third pair floods.
    fn pair(rng: &mut Rng) -> [Self; 2] {
        let make = if rng.below(3) == 0 { Self::flood } else { Self::new };
        [make(rng), make(rng)]
    }

    fn is_flood(&self) -> bool {
        !self.read_after.is_zero()
    }
}

/// What the sockets of a direction (four buffers of 64 KiB) and the relay (a lease of 128 KiB) hold at most, and the
/// piece of a peer.
const HELD_BYTES_MAX: usize = 4 * 65_536 + 131_072 + 9_000;
/// Enough to fill all that in a world where nothing is lost; below the idle timeout.
const FLOOD_TIME: Duration = Duration::from_secs(5);

/// Byte `at` of what a peer sends.
fn pattern(at: usize, seed: usize) -> u8 {
    ((at * 31 + at / 257 + seed) % 251) as u8
}

/// Runs a seed. Two runs of a seed have the same outcome.
///
/// # Panics
///
/// When something does not hold that must.
pub fn run(seed: u64) -> Outcome {
    world::run(seed, 1, |world, rng| Box::pin(scenario(world, rng)))
}

async fn scenario(world: World, mut rng: Rng) -> String {
    let back = TcpListener::bind("127.0.0.1:91").expect("the address is free");
    let front = TcpListener::bind("127.0.0.1:90").expect("the address is free");
    let (near, far) = (front.local_addr(), back.local_addr());
    let (mut pairs, mut moved) = (0, 0);
    for _ in 0..rng.between(1, 6) {
        let parts = Part::pair(&mut rng);
        let Some((client, left)) = join(&front, near).await else { continue };
        let Some((right, server)) = join(&back, far).await else { continue };
        let clean = world.is_clean && parts.iter().all(|part| part.drop_after.is_none());
        let idle = parts[0].read_after + Duration::from_secs(rng.between(2, 20));
        let relay: JoinHandle<_> = spawn(Relay::new(left, right).idle_timeout(idle).run()).expect("there is room");
        let ends = [(client, 1, 2), (server, 2, 1)];
        let mut peers = Vec::new();
        for ((stream, own, other), part) in ends.into_iter().zip(&parts) {
            peers.push(spawn(play(stream, part.clone(), own, other, world)).expect("there is room"));
        }
        let relayed = timeout(Duration::from_secs(600), relay).await.expect("a relay ends").expect("no panic");
        let mut got = Vec::new();
        for peer in peers {
            let end = timeout(Duration::from_secs(600), peer).await.expect("a peer ends");
            got.push(end.expect("what arrives is a beginning of what was sent"));
        }
        check(relayed, &parts, &got, clean);
        pairs += 1;
        moved += got.iter().sum::<usize>();
    }
    assert!(io::drain_relays(Duration::from_secs(60)).await, "no relay is left");
    format!("{pairs} pairs, {moved} bytes")
}

/// Both ends of a connection; `None` where the world does not let it be.
async fn join(listener: &TcpListener, address: SocketAddr) -> Option<(TcpStream, TcpStream)> {
    let connecting = spawn(TcpStream::connect(address)).ok()?;
    let accepted = timeout(Duration::from_secs(5), listener.accept()).await;
    let connected = timeout(Duration::from_secs(30), connecting).await;
    let (Ok(Ok((accepted, from))), Ok(Ok(Ok(connected)))) = (accepted, connected) else { return None };
    // One that was given up before may have been accepted instead.
    (connected.local_addr().ok()? == from).then_some((connected, accepted))
}

/// Sends its part and reads the other's; how many bytes came.
async fn play(stream: TcpStream, part: Part, own: usize, other: usize, world: World) -> usize {
    let (mut read, mut write) = stream.into_split();
    let (bytes, piece, pause) = (part.bytes, part.piece, part.send_pause);
    let sending = spawn(async move {
        let all: Vec<u8> = (0..bytes).map(|at| pattern(at, own)).collect();
        for piece in all.chunks(piece) {
            if write.send_bytes(piece).await.is_err() {
                return write;
            }
            sleep(pause).await;
        }
        let _gone = write.shutdown_write().await;
        write
    });
    let mut sending = sending.expect("there is room");
    sleep(part.read_after).await;
    if part.is_flood() && world.is_clean {
        assert!(!sending.is_finished(), "both directions are full before one of them is read");
    }
    let mut at = 0;
    while part.drop_after.is_none_or(|bytes| at < bytes) {
        match timeout(Duration::from_secs(200), read.recv()).await {
            Ok(Ok(Some(lease))) => {
                for byte in lease.iter() {
                    assert_eq!(*byte, pattern(at, other), "byte {at}");
                    at += 1;
                }
            }
            _ => break,
        }
        sleep(part.read_pause).await;
    }
    // In a world with faults the end of the other side may be lost, and a send waits for ever.
    if part.drop_after.is_some() || timeout(Duration::from_secs(200), &mut sending).await.is_err() {
        sending.abort();
        let _write = sending.await;
    }
    at
}

fn check(relayed: plimsoll::Result<Relayed>, parts: &[Part; 2], got: &[usize], clean: bool) {
    assert!(got[0] <= parts[1].bytes && got[1] <= parts[0].bytes, "no byte is made up");
    let Ok(relayed) = relayed else { return assert!(!clean, "{relayed:?}") };
    assert!(got[1] as u64 <= relayed.first_bytes && relayed.first_bytes <= parts[0].bytes as u64, "{relayed:?}");
    assert!(got[0] as u64 <= relayed.second_bytes && relayed.second_bytes <= parts[1].bytes as u64, "{relayed:?}");
    if clean {
        assert_eq!(relayed.end, RelayEnd::Closed);
        assert_eq!((got[1], got[0]), (parts[0].bytes, parts[1].bytes), "every byte arrives");
    }
}
