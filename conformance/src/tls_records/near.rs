//! A server's end: its transport as the table of a runtime uses it, packed whenever it can be.

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_runtime::net::transport::{
    Attached, END_BYTES_MAX, PACKED_BYTES, Pack, PackedBytes, Plaintext, Stage, Transport,
};

enum Held {
    Boxed(Box<dyn Transport>),
    Packed(&'static &'static dyn Pack, Box<PackedBytes>, Attached),
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Open,
    Ended,
    Failed,
}

pub(super) struct Near {
    held: Held,
    pool: Pool,
    course: Course,
    /// Whether it ever was at rest as bytes.
    pub(super) was_packed: bool,
    pub(super) plaintext: Vec<u8>,
    said: Vec<u8>,
}

thread_local! {
    static POOL: Pool = Pool::new(&Budget::new(MemoryLimit::mib(64)), PoolConfig::default()).expect("room");
}

impl Near {
    pub(super) fn new(make: impl FnOnce(&Pool) -> Box<dyn Transport>) -> Self {
        let pool = POOL.with(Clone::clone);
        Self {
            held: Held::Boxed(make(&pool)),
            pool,
            course: Course::Open,
            was_packed: false,
            plaintext: Vec::new(),
            said: Vec::new(),
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut dyn Transport, &Pool) -> R) -> R {
        let (mut act, mut done) = (Some(act), None);
        let pool = &self.pool;
        let mut once = |transport: &mut dyn Transport| done = act.take().map(|act| act(transport, pool));
        match &mut self.held {
            Held::Boxed(transport) => once(&mut **transport),
            Held::Packed(how, bytes, attached) => {
                if let Some(transport) = how.with(bytes, attached, &mut once) {
                    assert!(bytes.iter().all(|byte| *byte == 0), "what is moved is wiped");
                    self.held = Held::Boxed(transport);
                }
            }
        }
        if let Held::Boxed(transport) = &mut self.held {
            while let Some(records) = transport.output() {
                self.said.extend_from_slice(&records);
            }
            if let Some(how) = transport.packing() {
                let mut bytes = Box::new([0; PACKED_BYTES]);
                let attached = transport.pack(&mut bytes);
                self.held = Held::Packed(how, bytes, attached);
                self.was_packed = true;
            }
        }
        done.expect("used once")
    }

    /// Gives it bytes in pieces of these lengths, again and again; whole without any.
    pub(super) fn give(&mut self, bytes: &[u8], pieces: &[u8]) {
        let mut lens = pieces.iter().map(|len| 1 + usize::from(*len) * 5).cycle();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(lens.next().unwrap_or(usize::MAX).min(rest.len()));
            rest = after;
            let mut piece = piece.to_vec();
            let (opened, stage) = self.with(|transport, pool| (transport.open(pool, &mut piece), transport.stage()));
            match opened {
                Ok(_) if self.course == Course::Failed => panic!("a failure is final"),
                Ok(Plaintext::InPlace(len)) => self.plaintext.extend_from_slice(&piece[..len]),
                Ok(Plaintext::Lease(lease)) => self.plaintext.extend_from_slice(&lease),
                Err(_) => self.course = Course::Failed,
            }
            if stage == Stage::Ended && self.course == Course::Open {
                self.course = Course::Ended;
            }
        }
    }

    /// Seals plaintext, if it can.
    pub(super) fn seal(&mut self, plaintext: &[u8]) -> bool {
        if self.with(|transport, _| transport.stage()) == Stage::Handshake {
            return false;
        }
        let sealed = self.with(|transport, pool| transport.seal(pool, plaintext).map(|lease| lease.to_vec()));
        self.said.extend(sealed.iter().flatten());
        sealed.is_ok()
    }

    pub(super) fn end(&mut self) {
        let mut room = [0; END_BYTES_MAX];
        let len = self.with(|transport, _| transport.end(&mut room));
        self.said.extend_from_slice(&room[..len]);
    }

    /// What it has to say since it was asked last.
    pub(super) fn said(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.said)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.course == Course::Failed
    }

    pub(super) fn has_ended(&self) -> bool {
        self.course == Course::Ended
    }

    /// Whether its handshake is over.
    pub(super) fn is_open(&self) -> bool {
        match &self.held {
            Held::Boxed(transport) => transport.stage() != Stage::Handshake,
            Held::Packed(..) => true,
        }
    }

    pub(super) fn has_partial(&self) -> bool {
        match &self.held {
            Held::Boxed(transport) => transport.has_partial(),
            Held::Packed(..) => false,
        }
    }
}
