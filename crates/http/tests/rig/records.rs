//! A transport for tests, in the place that TLS has: bytes travel in records, which are split and joined without regard
//! to what is in them, numbered and masked. And what speaks it for a client that does not.

use std::sync::Arc;

use plimsoll_pool::{Kind, Lease, OverBudget, Pool};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::net::transport::{END_BYTES_MAX, MakeTransport, OpenError, Plaintext, Stage, Transport};
use plimsoll_runtime::{Error, Result};

use super::bridge::both;

/// Plaintext of one record after another, in bytes.
const SIZES: [usize; 6] = [1, 7, 100, 1_400, 4_000, 16_384];
/// The length, and the low byte of the number.
const HEAD_BYTES: usize = 3;

/// Both directions of a connection.
#[derive(Clone, Default)]
pub(crate) struct Records {
    sealed: usize,
    opened: usize,
    /// Of a record that is not whole.
    partial: Vec<u8>,
    /// A record of nothing has come: the end.
    has_ended: bool,
    has_said_end: bool,
}

fn masked(number: usize, bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().enumerate().map(move |(at, byte)| byte ^ (number * 31 + at * 7 + 0xa5) as u8)
}

impl Records {
    pub(crate) fn make() -> MakeTransport {
        Arc::new(|_pool| Ok(Box::new(Self::default())))
    }

    /// What says that no more is sent.
    fn write_end(&mut self) -> [u8; HEAD_BYTES] {
        self.sealed += 1;
        [0, 0, (self.sealed - 1) as u8]
    }

    fn write(&mut self, mut plaintext: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        while !plaintext.is_empty() {
            let (part, rest) = plaintext.split_at(plaintext.len().min(SIZES[self.sealed % SIZES.len()]));
            records.extend_from_slice(&(part.len() as u16).to_be_bytes());
            records.push(self.sealed as u8);
            records.extend(masked(self.sealed, part));
            (self.sealed, plaintext) = (self.sealed + 1, rest);
        }
        records
    }

    /// The plaintext of all records that are whole; `None` for what is no record.
    fn read(&mut self, received: &[u8]) -> Option<Vec<u8>> {
        self.partial.extend_from_slice(received);
        let (mut plaintext, mut used) = (Vec::new(), 0);
        while let Some(&[high, low, number]) = self.partial[used..].first_chunk::<HEAD_BYTES>() {
            let len = usize::from(u16::from_be_bytes([high, low]));
            if number != self.opened as u8 || self.has_ended || !(0..=SIZES[self.opened % SIZES.len()]).contains(&len) {
                return None;
            }
            let Some(record) = self.partial[used + HEAD_BYTES..].get(..len) else { break };
            self.has_ended = len == 0;
            plaintext.extend(masked(self.opened, record));
            (self.opened, used) = (self.opened + 1, used + HEAD_BYTES + len);
        }
        self.partial.drain(..used);
        Some(plaintext)
    }
}

impl Transport for Records {
    fn open(&mut self, pool: &Pool, received: &mut [u8]) -> core::result::Result<Plaintext, OpenError> {
        let plaintext = self.read(received).ok_or(OpenError::Malformed)?;
        if let Some(place) = received.get_mut(..plaintext.len()) {
            place.copy_from_slice(&plaintext);
            return Ok(Plaintext::InPlace(plaintext.len()));
        }
        Ok(Plaintext::Lease(pool.try_copy(&plaintext, Kind::Buffers)?))
    }

    fn seal(&mut self, pool: &Pool, plaintext: &[u8]) -> core::result::Result<Lease, OverBudget> {
        let mut after = self.clone();
        let records = pool.try_copy(&after.write(plaintext), Kind::Buffers)?;
        *self = after;
        Ok(records)
    }

    fn stage(&self) -> Stage {
        if self.has_ended { Stage::Ended } else { Stage::Open }
    }

    fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    fn end(&mut self, room: &mut [u8; END_BYTES_MAX]) -> usize {
        if core::mem::replace(&mut self.has_said_end, true) {
            return 0;
        }
        room[..HEAD_BYTES].copy_from_slice(&self.write_end());
        HEAD_BYTES
    }
}

/// Carries what a client says to a server that speaks it.
pub(crate) async fn carry(client: TcpStream, server: TcpStream, first: Vec<u8>) -> Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut sealing = Records::default();
    let up = async move {
        to_server.send_bytes(&sealing.write(&first)).await?;
        while let Some(plaintext) = from_client.recv().await? {
            to_server.send_bytes(&sealing.write(&plaintext)).await?;
        }
        to_server.send_bytes(&sealing.write_end()).await?;
        to_server.shutdown_write().await?;
        // Closed when the other way has ended, too.
        Ok((from_client, to_server))
    };
    let mut opening = Records::default();
    let down = async move {
        while let Some(records) = from_server.recv().await? {
            let plaintext = opening.read(&records).ok_or(Error::ConnectionClosed)?;
            to_client.send_bytes(&plaintext).await?;
        }
        assert!(opening.partial.is_empty(), "a server ends behind a record");
        to_client.shutdown_write().await?;
        Ok((from_server, to_client))
    };
    both(up, down).await
}
