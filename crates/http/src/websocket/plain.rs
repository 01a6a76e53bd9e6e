//! In the place of `deflate` where that is not built: nothing is agreed on, so no message is compressed.

use plimsoll_codec::ws::{Compression, Handshake};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::OverBudget;

use super::assembly::Assembly;
use super::config::WebSocketConfig;
use super::message::Message;
use super::settings::Settings;
use crate::Error;
use crate::exchange::output::Output;
use crate::memory::desk::Desk;

/// The windows of one connection: it has none, and there is no value of this type.
#[derive(Debug)]
pub(super) enum Streams {}

pub(super) fn agree(_core: &Desk, _handshake: &Handshake<'_>, _config: &WebSocketConfig) -> Option<Compression> {
    None
}

/// Gives the message back, to be sent as it is.
pub(super) fn put(
    _work: (&mut Option<PoolBox<Streams>>, &mut Output),
    _core: &Desk,
    _settings: &Settings,
    message: Message,
) -> Result<Option<Message>, Error> {
    Ok(Some(message))
}

impl Streams {
    pub(super) fn of<'a>(place: &'a mut Option<PoolBox<Self>>, _core: &Desk) -> Result<&'a mut Self, OverBudget> {
        place.as_deref_mut().ok_or(OverBudget::new(0))
    }

    pub(super) fn charged_bytes(&self) -> usize {
        match *self {}
    }

    pub(super) fn are_kept(&mut self, _core: &Desk) -> bool {
        match *self {}
    }

    pub(super) fn are_lost(&self) -> bool {
        match *self {}
    }

    pub(super) fn inflate(
        &mut self,
        _core: &Desk,
        _of: (&Settings, bool),
        _part: &[u8],
        _assembly: &mut Assembly,
    ) -> Result<(), Error> {
        match *self {}
    }

    pub(super) fn finish(
        &mut self,
        _core: &Desk,
        _of: (&Settings, bool),
        _assembly: &mut Assembly,
    ) -> Result<(), Error> {
        match *self {}
    }
}
