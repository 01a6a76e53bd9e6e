//! Honest clients: each visit is one connection, and everything on it gets what is due, or is refused in words.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::asks::{Ask, Weather};
use super::http1::{Broken, Connection};
use super::http2::{ENHANCE_YOUR_CALM, REFUSED_STREAM, Session, block, request};
use super::ledger::{Fate, Kind, REFUSALS, Tally};
use crate::bench::swarm::websocket;
use crate::random::Random;

/// One visit of a client. Its tally is what can be said of it when it is over, however it ended.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    to: SocketAddr,
    weather: Weather,
    random: &'a mut Random,
    pub(super) tally: Tally,
}

impl<'a> Visit<'a> {
    pub(super) fn new(to: SocketAddr, weather: Weather, random: &'a mut Random) -> Visit<'a> {
        Visit { to, weather, random, tally: Tally::default() }
    }

    /// The error says what must not happen.
    pub(super) fn run(&mut self, kind: Kind) -> Result<(), String> {
        let run = match kind {
            Kind::Http1 | Kind::Relayed => self.http1(),
            Kind::Http2 => self.http2(),
            Kind::WebSocket => self.websocket(),
            Kind::WebSocketHttp2 => self.websocket_http2(),
        };
        run.map_err(|what| format!("{}: {what}", kind.name()))
    }

    fn http1(&mut self) -> Result<(), String> {
        let mut connection = Connection::open(self.to).map_err(|error| format!("no connection: {error}"))?;
        self.tally.connections += 1;
        for _ in 0..=self.random.below(12) {
            if self.goes_away() {
                self.desert(connection);
                return Ok(());
            }
            let asks: Vec<Ask> = match self.random.below(4) {
                0 => (0..2 + self.random.below(14)).map(|_| Ask::small(self.random)).collect(),
                _ => vec![Ask::any(self.random)],
            };
            let chunk_bytes = (self.random.below(2) == 0).then(|| 1 + self.random.below(9_000));
            let bytes: Vec<u8> = asks.iter().flat_map(|ask| ask.http1(chunk_bytes)).collect();
            self.tally.requests += asks.len() as u64;
            // What is not taken may have an answer already.
            let _taken = connection.send(&bytes);
            if !self.hear(&mut connection, &asks)? {
                return Ok(());
            }
            self.think();
        }
        Ok(())
    }

    /// Takes the answers; whether the connection goes on.
    fn hear(&mut self, connection: &mut Connection, asks: &[Ask]) -> Result<bool, String> {
        for (at, ask) in asks.iter().enumerate() {
            let answer = match connection.answer(ask.is_head()) {
                Ok(answer) => answer,
                Err(Broken::Closed) => return self.let_go(asks.len() - at).map(|()| false),
                Err(Broken::Cut) => return self.cut(ask).map(|()| false),
                Err(Broken::Wrong(what)) => return Err(format!("{ask}: {what}")),
            };
            self.tally.count(ask.judge(self.weather, answer.status, &answer.body)?);
            if answer.closes {
                return self.let_go(asks.len() - at - 1).map(|()| false);
            }
        }
        Ok(true)
    }

    /// So many requests without a word.
    fn let_go(&mut self, count: usize) -> Result<(), String> {
        if count > 0 && self.weather == Weather::Calm {
            return Err(format!("{count} requests without an answer, and nobody else is there"));
        }
        (0..count).for_each(|_| self.tally.count(Fate::LetGo));
        Ok(())
    }

    /// An answer that was begun and has no end.
    fn cut(&mut self, ask: &Ask) -> Result<(), String> {
        if self.weather == Weather::Calm {
            return Err(format!("{ask}: the connection ended within its answer, and nobody else is there"));
        }
        self.tally.count(Fate::Cut);
        Ok(())
    }

    fn goes_away(&mut self) -> bool {
        self.weather == Weather::Storm && self.random.below(12) == 0
    }

    /// Asks, and goes away before the end: within its own body, or within the answer.
    fn desert(&mut self, mut connection: Connection) {
        self.tally.requests += 1;
        let is_upload = self.random.below(2) == 0;
        let ask = if is_upload { Ask::upload(100_000, self.random) } else { Ask::blob(8 << 20) };
        let mut bytes = ask.http1(None);
        if is_upload {
            bytes.truncate(bytes.len() / 2);
        }
        if connection.send(&bytes) && !is_upload {
            let _some = connection.bytes(self.random.below(200_000));
        }
        self.tally.count(Fate::Cancelled);
    }

    fn think(&mut self) {
        if self.random.below(3) == 0 {
            thread::sleep(Duration::from_millis(self.random.below(20) as u64));
        }
    }

    /// A connection of HTTP/2 that the server has talked to; none if it was let go of.
    fn session(&mut self) -> Result<Option<Session>, String> {
        let window = self.random.pick(&[1_000, 16_384, 65_535, 1_000_000]);
        let mut session = Session::open(self.to, window).map_err(|error| format!("no connection: {error}"))?;
        self.tally.connections += 1;
        match session.settle() {
            Ok(()) => Ok(Some(session)),
            Err(Broken::Closed | Broken::Cut) => self.let_go(1).map(|()| None),
            Err(Broken::Wrong(what)) => Err(format!("before SETTINGS: {what}")),
        }
    }

    fn http2(&mut self) -> Result<(), String> {
        let Some(mut session) = self.session()? else { return Ok(()) };
        for _ in 0..=self.random.below(6) {
            let count = 1 + self.random.below(session.streams_max.min(STREAMS_MAX));
            let asks: Vec<Ask> = (0..count).map(|_| Ask::any(self.random)).collect();
            let mut open: Vec<Open<'_>> = Vec::new();
            for ask in &asks {
                let id = session.begin(&request(ask.method, &ask.path), ask.body.is_none());
                let gives_up = self.goes_away().then(|| self.random.below(50_000));
                open.push(Open { ask, id, sent: 0, has_sent: ask.body.is_none(), gives_up });
            }
            self.tally.requests += count as u64;
            while !open.is_empty() {
                open.retain_mut(|one| !self.settled(&mut session, one));
                if session.goaway.is_some_and(|(_, code)| code != 0) {
                    return Err(format!("GOAWAY {:?}", session.goaway));
                }
                if open.iter_mut().any(|one| one.send(&mut session)) {
                    continue;
                }
                if let Some(one) = open.iter().find(|one| one.failed(&session, self.weather).is_some()) {
                    return Err(one.failed(&session, self.weather).unwrap_or_default());
                }
                if open.is_empty() {
                    break;
                }
                match session.turn() {
                    Ok(()) => {}
                    Err(Broken::Wrong(what)) => return Err(format!("{}: {what}", open[0].ask)),
                    Err(Broken::Closed | Broken::Cut) => {
                        let begun = open.iter().find(|one| session.streams[&one.id].status.is_some());
                        return match begun {
                            Some(one) => self.cut(one.ask),
                            None => self.let_go(open.len()),
                        };
                    }
                }
            }
            if session.goaway.is_some() {
                return Ok(());
            }
            self.think();
        }
        Ok(())
    }

    /// Counts a stream that is over as it should be; whether it is.
    fn settled(&mut self, session: &mut Session, one: &mut Open<'_>) -> bool {
        let Some(stream) = session.streams.get(&one.id) else { return true };
        if one.gives_up.is_some_and(|after| stream.body.len() >= after || one.sent >= after) && !stream.is_over() {
            session.reset(one.id);
            self.tally.count(Fate::Cancelled);
            return true;
        }
        let fate = match (stream.status, stream.reset) {
            (Some(status), _) if stream.has_ended => one.ask.judge(self.weather, status, &stream.body).ok(),
            (None, Some(REFUSED_STREAM)) if self.weather == Weather::Storm => Some(Fate::Refused(0)),
            (_, Some(ENHANCE_YOUR_CALM)) if self.weather == Weather::Storm => Some(Fate::Cut),
            (None, _) if session.goaway.is_some_and(|(last, code)| code == 0 && one.id > last) => Some(Fate::LetGo),
            _ => None,
        };
        if let Some(fate) = fate {
            self.tally.count(fate);
            session.streams.remove(&one.id);
        }
        fate.is_some()
    }

    fn websocket(&mut self) -> Result<(), String> {
        let mut connection = Connection::open(self.to).map_err(|error| format!("no connection: {error}"))?;
        self.tally.connections += 1;
        self.tally.requests += 1;
        let _taken = connection.send(&websocket::handshake("/ws"));
        match connection.answer(false) {
            Ok(answer) if answer.status == 101 => self.tally.count(Fate::Answered(101)),
            Ok(answer) if self.weather == Weather::Storm && REFUSALS.contains(&answer.status) => {
                self.tally.count(Fate::Refused(answer.status));
                return Ok(());
            }
            Ok(answer) => return Err(format!("the handshake is answered {}", answer.status)),
            Err(Broken::Closed | Broken::Cut) => return self.let_go(1),
            Err(Broken::Wrong(what)) => return Err(format!("the handshake: {what}")),
        }
        for _ in 0..=self.random.below(20) {
            let sizes = self.sizes();
            let bytes: Vec<u8> = sizes.iter().flat_map(|size| websocket::message(*size)).collect();
            let _taken = connection.send(&bytes);
            for size in sizes {
                let echo = echo(&mut |count| connection.bytes(count), size);
                if !self.echoed(echo)? {
                    return Ok(());
                }
            }
            if self.goes_away() {
                self.tally.count(Fate::Cancelled);
                return Ok(());
            }
            self.think();
        }
        let _taken = connection.send(CLOSE);
        Ok(())
    }

    /// Lengths of messages that are sent at once.
    fn sizes(&mut self) -> Vec<usize> {
        (0..=self.random.below(6)).map(|_| self.random.pick(&[1, 64, 125, 126, 3_000, 30_000])).collect()
    }

    /// Counts a message that has come back; whether the connection goes on.
    fn echoed(&mut self, echo: Result<Echo, Broken>) -> Result<bool, String> {
        match echo {
            Ok(Echo::Whole) => self.tally.count(Fate::Echoed),
            Ok(Echo::TryLater) if self.weather == Weather::Storm => self.tally.count(Fate::Refused(0)),
            Err(Broken::Closed | Broken::Cut) if self.weather == Weather::Storm => self.tally.count(Fate::LetGo),
            Ok(Echo::TryLater) => return Err("told to try again later, and nobody else is there".to_owned()),
            Err(Broken::Closed | Broken::Cut) => {
                return Err("closed without a word, and nobody else is there".to_owned());
            }
            Err(Broken::Wrong(what)) => return Err(what),
        }
        Ok(matches!(echo, Ok(Echo::Whole)))
    }

    fn websocket_http2(&mut self) -> Result<(), String> {
        let Some(mut session) = self.session()? else { return Ok(()) };
        if !session.offers_connect {
            return Err("SETTINGS do not offer extended CONNECT".to_owned());
        }
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "soak"),
            (":path", "/ws"),
            ("sec-websocket-version", "13"),
        ];
        let id = session.begin(&block(&fields), false);
        self.tally.requests += 1;
        let status = loop {
            let stream = &session.streams[&id];
            match (stream.status, stream.reset) {
                (Some(status), _) => break status,
                (None, Some(REFUSED_STREAM)) if self.weather == Weather::Storm => {
                    self.tally.count(Fate::Refused(0));
                    return Ok(());
                }
                (None, Some(code)) => return Err(format!("the handshake is reset with {code}")),
                (None, None) => {}
            }
            match session.turn() {
                Ok(()) => {}
                Err(Broken::Closed | Broken::Cut) => return self.let_go(1),
                Err(Broken::Wrong(what)) => return Err(format!("the handshake: {what}")),
            }
        };
        if self.weather == Weather::Storm && REFUSALS.contains(&status) {
            self.tally.count(Fate::Refused(status));
            return Ok(());
        }
        if status != 200 {
            return Err(format!("the handshake is answered {status}"));
        }
        self.tally.count(Fate::Answered(200));
        for _ in 0..=self.random.below(12) {
            let sizes = self.sizes();
            let bytes: Vec<u8> = sizes.iter().flat_map(|size| websocket::message(*size)).collect();
            let mut tunnel = Tunnel { session: &mut session, id, unsent: &bytes };
            for size in sizes {
                let echo = echo(&mut |count| tunnel.take(count), size);
                if !self.echoed(echo)? {
                    return Ok(());
                }
            }
            self.think();
        }
        session.reset(id);
        Ok(())
    }
}

/// A request on a stream of HTTP/2.
struct Open<'a> {
    ask: &'a Ask,
    id: u32,
    sent: usize,
    has_sent: bool,
    /// Resets the stream when so many bytes have been sent or received.
    gives_up: Option<usize>,
}

impl Open<'_> {
    /// Sends a piece of the body, if the windows allow; whether it did.
    fn send(&mut self, session: &mut Session) -> bool {
        let Some(body) = self.ask.body.as_ref().filter(|_| !self.has_sent) else { return false };
        if session.streams.get(&self.id).is_none_or(super::http2::Stream::is_over) {
            return false;
        }
        let count = session.send(self.id, &body[self.sent..], true);
        self.sent += count;
        self.has_sent = self.sent == body.len();
        count > 0 || self.has_sent
    }

    /// What must not have happened to it, if it has.
    fn failed(&self, session: &Session, weather: Weather) -> Option<String> {
        let stream = session.streams.get(&self.id).filter(|stream| stream.is_over())?;
        let why = match (stream.status, stream.reset) {
            (Some(status), None) => self.ask.judge(weather, status, &stream.body).err()?,
            (status, reset) => format!("{}: status {status:?}, reset {reset:?}", self.ask),
        };
        Some(why)
    }
}

/// A WebSocket on a stream: messages go out as far as the windows let them, and the answers come in between.
struct Tunnel<'a> {
    session: &'a mut Session,
    id: u32,
    unsent: &'a [u8],
}

impl Tunnel<'_> {
    /// The next bytes of the server.
    fn take(&mut self, count: usize) -> Result<Vec<u8>, Broken> {
        loop {
            let sent = self.session.send(self.id, self.unsent, false);
            self.unsent = &self.unsent[sent..];
            let Some(stream) = self.session.streams.get_mut(&self.id) else { return Err(Broken::Closed) };
            if stream.body.len() >= count {
                return Ok(stream.body.drain(..count).collect());
            }
            if stream.reset == Some(ENHANCE_YOUR_CALM) {
                // The memory was needed for others.
                return Err(Broken::Cut);
            }
            if let Some(code) = stream.reset.filter(|code| *code != REFUSED_STREAM) {
                return Err(Broken::Wrong(format!("the stream is reset with {code}")));
            }
            if let Some((_, code @ 1..)) = self.session.goaway {
                return Err(Broken::Wrong(format!("GOAWAY with {code}")));
            }
            if stream.is_over() {
                return Err(Broken::Closed);
            }
            if sent == 0 {
                self.session.turn()?;
            }
        }
    }
}

/// What came instead of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    Whole,
    /// A close with 1013.
    TryLater,
}

/// Reads the echo of a message of so many bytes.
fn echo(take: &mut dyn FnMut(usize) -> Result<Vec<u8>, Broken>, size: usize) -> Result<Echo, Broken> {
    let mut head = take(2)?;
    if head[0] == 0x88 {
        let payload = take(usize::from(head[1] & 0x7F))?;
        let code = payload.first_chunk().map_or(0, |two| u16::from_be_bytes(*two));
        return if code == TRY_AGAIN_LATER {
            Ok(Echo::TryLater)
        } else {
            Err(Broken::Wrong(format!("closed with {code}")))
        };
    }
    let wrong = |head: &[u8]| Broken::Wrong(format!("no message: {}", head.escape_ascii()));
    let len = loop {
        match websocket::frame(&head).map_err(|_| wrong(&head))? {
            Some((_, len)) => break len as usize,
            None => head.extend(take(2)?),
        }
    };
    let payload = take(len)?;
    let is_due = len == size && payload.iter().all(|byte| *byte == b'm');
    if is_due { Ok(Echo::Whole) } else { Err(Broken::Wrong(format!("{len} bytes for a message of {size}"))) }
}

/// Requests at a time on a connection of HTTP/2.
const STREAMS_MAX: usize = 16;
/// RFC 6455 7.4.1 and its registry.
const TRY_AGAIN_LATER: u16 = 1013;
/// A close with 1000, masked with zeros.
const CLOSE: &[u8] = &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8];

#[cfg(test)]
mod tests;
