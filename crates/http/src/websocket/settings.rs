//! What connections that were opened with the same configuration share.

#[cfg(feature = "deflate")]
use ::core::cell::RefCell;
use ::core::time::Duration;
use std::rc::{Rc, Weak};

use plimsoll_codec::ws::{Compression, Limits};
use plimsoll_pool::Charge;
use plimsoll_runtime::{Kind, OverBudget, Pool};

use super::config::WebSocketConfig;
#[cfg(feature = "deflate")]
use super::deflate::SharedStreams;
use super::group::Group;

/// What connections that were opened with the same configuration share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) values: Values,
    /// Of members of hubs. Not kept by them.
    group: Option<Weak<dyn Group>>,
    /// What the connections of the worker share.
    #[cfg(feature = "deflate")]
    pub(super) streams: Rc<RefCell<SharedStreams>>,
    _charge: Charge,
}

impl Settings {
    /// Whether they are of members of hubs.
    pub(super) fn is_of_hub(&self) -> bool {
        self.group.is_some()
    }

    pub(super) fn group(&self) -> Option<Rc<dyn Group>> {
        self.group.as_ref()?.upgrade()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) limits: Limits,
    pub(super) ping_interval: Option<Duration>,
    pub(super) message_timeout: Duration,
    pub(super) send_timeout: Duration,
    pub(super) close_timeout: Duration,
    /// What was agreed on.
    pub(super) compression: Option<Compression>,
}

impl Values {
    pub(super) fn new(config: &WebSocketConfig, compression: Option<Compression>) -> Self {
        let &WebSocketConfig { limits, ping_interval, message_timeout, send_timeout, close_timeout, .. } = config;
        Self { limits, ping_interval, message_timeout, send_timeout, close_timeout, compression }
    }
}

/// The settings that were used last: nearly all connections of a server share a few.
#[derive(Debug, Default)]
pub(crate) struct KnownSettings {
    known: Vec<Rc<Settings>>,
    #[cfg(feature = "deflate")]
    streams: Rc<RefCell<SharedStreams>>,
}

impl KnownSettings {
    pub(super) fn shared(
        &mut self,
        pool: &Pool,
        values: Values,
        group: Option<Weak<dyn Group>>,
    ) -> Result<Rc<Settings>, OverBudget> {
        let same = |known: &Settings| match (&known.group, &group) {
            (Some(known), Some(group)) => ::core::ptr::addr_eq(known.as_ptr(), group.as_ptr()),
            (known, group) => known.is_none() && group.is_none(),
        };
        if let Some(known) = self.known.iter().find(|known| known.values == values && same(known)) {
            return Ok(Rc::clone(known));
        }
        let bytes = size_of::<Settings>() + 4 * size_of::<usize>();
        let charge = pool.budget().charge(Kind::Codec, bytes as u64)?;
        let fresh = Rc::new(Settings {
            values,
            group,
            #[cfg(feature = "deflate")]
            streams: Rc::clone(&self.streams),
            _charge: charge,
        });
        self.known.truncate(KNOWN_MAX - 1);
        self.known.insert(0, Rc::clone(&fresh));
        Ok(fresh)
    }
}

/// Settings that are kept for the next connection.
const KNOWN_MAX: usize = 16;
