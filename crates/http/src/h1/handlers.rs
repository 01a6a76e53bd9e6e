//! What handlers ask of an exchange of HTTP/1.1: those of HTTP/2 have [the same](crate::h2).

use ::core::task::{Context, Poll};

use http::{Method, StatusCode};
use plimsoll_codec::h1::{self, BodyLength, Fields, RequestState, ResponseState};
use plimsoll_pool::Priority;
use plimsoll_runtime::{JoinHandle, Lease, OverBudget};

use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::line::Line;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::response::{Body, Response};
use crate::exchange::user_code::{self, UserWaker};
use crate::h1::active::Active;
use crate::h1::actives::{Actives, Http1};
use crate::h1::request_body::Decoded;
use crate::memory::lasting::ExchangeId;

impl<A: Actives> Http1<'_, A> {
    /// Counts pieces of work that must be finished.
    pub(crate) fn must_finish(&self, id: ExchangeId, by: i32) {
        self.with(id, |active| active.must_finish = active.must_finish.saturating_add_signed(by));
    }

    /// The handler went away without an answer.
    pub(crate) fn fail(&self, id: ExchangeId) {
        self.with(id, |active| {
            active.handler = None;
            active.fail(self.desk(), StatusCode::INTERNAL_SERVER_ERROR);
            active.list(self, id.key());
        });
    }

    /// The next part of the request's body.
    pub(crate) fn poll_chunk(&self, id: ExchangeId, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>, Error>> {
        self.release_kept_for(id.key());
        let polled = self.with(id, |active| {
            if active.is_closing() {
                return Ok(Poll::Ready(Err(active.course.error())));
            }
            match active.decode(self) {
                Ok(Decoded::Data(lease)) => {
                    active.memory.get_on();
                    return Ok(Poll::Ready(Ok(Some(lease))));
                }
                Ok(Decoded::End) => return Ok(Poll::Ready(Ok(None))),
                Ok(Decoded::NeedMore) => {}
                // A body that was cut for want of memory waits for none.
                Err(error) if active.exchange.request() == RequestState::Error => {
                    return Ok(Poll::Ready(Err(error)));
                }
                Err(error) => return Err(error),
            }
            if active.exchange.may_continue() {
                active.output.append(&self.pool, h1::CONTINUE)?;
                active.exchange.continue_sent()?;
            }
            active.reader = Some(UserWaker::of(cx));
            active.list(self, id.key());
            Ok(Poll::Pending)
        });
        match polled {
            None => Poll::Ready(Err(Error::Disconnected)),
            Some(Err(Error::OverBudget(over))) if self.waits_for_room(id, Priority::Body, &over) => {
                self.with(id, |active| active.reader = Some(UserWaker::of(cx)));
                Poll::Pending
            }
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(polled)) => polled,
        }
    }

    /// Writes the head of an answer that is streamed.
    pub(crate) fn begin(&self, id: ExchangeId, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let begun = self.with_reserve(id, |active| {
            if active.is_closing() {
                return Err(active.course.error());
            }
            if let Some(error) = active.malformed_for(response.status()) {
                return Err(Error::Peer(error));
            }
            if !matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue) {
                return Err(Error::Misuse(Misuse::AnsweredAlready));
            }
            active.write(self, response, length)?;
            active.list(self, id.key());
            // Another answer than the one that would have changed the protocol.
            Ok(active.successor.take())
        });
        // Dropped while nothing is borrowed: it is the program's.
        begun.unwrap_or(Err(Error::Disconnected)).map(drop)
    }

    /// Writes a piece of an answer's body: at once if it is small and there is room, else when the socket has taken
    /// what is before it.
    pub(crate) fn poll_write(
        &self,
        id: ExchangeId,
        cx: &mut Context<'_>,
        body: &mut Option<Body>,
    ) -> Poll<Result<(), Error>> {
        self.release_kept_for(id.key());
        let polled = self.with_reserve(id, |active| {
            let piece = body.as_ref().expect("not polled after it was ready").as_slice().len();
            active.may_go_on(self, id.key())?;
            let discard = active.body.due() == Some(0) && active.method == Method::HEAD;
            if !discard && active.exchange.response() != ResponseState::Body {
                return Err(Error::Misuse(Misuse::BodyTooLong));
            }
            let bytes_max = self.config.output_bytes_max;
            if !discard && !active.output.has_room(piece.min(COPY_BYTES_MAX), bytes_max) {
                active.writer = Some(UserWaker::of(cx));
                active.list(self, id.key());
                return Ok(false);
            }
            if !discard {
                active.put_piece(self, body.as_mut().expect("checked above"))?;
                active.memory.get_on();
                active.list(self, id.key());
            }
            user_code::drop_later(body.take().unwrap_or_default());
            Ok(true)
        });
        self.written(id, cx, polled)
    }

    /// Ends an answer's body.
    pub(crate) fn finish(&self, id: ExchangeId) -> Result<(), Error> {
        let finished = self.with(id, |active| {
            active.may_go_on(self, id.key())?;
            let mut encoder = active.body;
            let Ok(end) = encoder.finish() else {
                active.abandon();
                return Err(Error::Misuse(Misuse::BodyTooShort));
            };
            if !end.is_empty() {
                active.output.append_last(end);
            }
            active.body = encoder;
            if active.exchange.response() == ResponseState::Body {
                active.exchange.body_sent()?;
            }
            active.list(self, id.key());
            Ok(())
        });
        finished.unwrap_or(Err(Error::Disconnected))
    }

    /// The handler of an exchange whose answer is whole, so that it can be dropped: it has nothing more to say.
    pub(crate) fn take_answered_handler(&self, id: ExchangeId) -> Option<JoinHandle<()>> {
        let take = |active: &mut Active| match active.exchange.response() {
            ResponseState::Done => active.take_handler(),
            _ => None,
        };
        self.with(id, take).flatten()
    }

    /// Ends an answer's body with trailers, as soon as there is room for them behind it.
    pub(crate) fn poll_finish_with(
        &self,
        id: ExchangeId,
        cx: &mut Context<'_>,
        trailers: Fields<'_>,
    ) -> Poll<Result<(), Error>> {
        let polled = self.with_reserve(id, |active| {
            active.may_go_on(self, id.key())?;
            let bytes = h1::LAST_CHUNK.len() + trailers.as_bytes().len();
            if !active.output.has_room(bytes, self.config.output_bytes_max) {
                active.writer = Some(UserWaker::of(cx));
                active.list(self, id.key());
                return Ok(false);
            }
            active.output.reserve(&self.pool, bytes)?;
            if let Err(error) = active.body.finish_with(trailers, &mut active.output) {
                active.abandon();
                return Err(match error {
                    plimsoll_codec::Error::BodyTooShort => Error::Misuse(Misuse::BodyTooShort),
                    other => Error::Misuse(Misuse::Protocol(other)),
                });
            }
            if active.exchange.response() == ResponseState::Body {
                active.exchange.body_sent()?;
            }
            active.list(self, id.key());
            Ok(true)
        });
        self.written(id, cx, polled)
    }

    /// The fields that came after the request's body, once.
    pub(crate) fn take_trailers(&self, id: ExchangeId) -> Option<Lease> {
        self.with(id, |active| active.trailers.take()).flatten()
    }

    /// The handler is done, and cannot wait for room.
    pub(crate) fn answer(&self, id: ExchangeId, response: &mut Response) {
        if let Some(Err(Error::OverBudget(over))) = self.try_answer(id, response) {
            self.answer_no_room(id, over);
        }
    }

    /// The handler is done. Ready when its answer has found room, or will never.
    pub(crate) fn poll_answer(&self, id: ExchangeId, cx: &mut Context<'_>, response: &mut Response) -> Poll<()> {
        self.release_kept_for(id.key());
        if let Some(Err(Error::OverBudget(over))) = self.try_answer(id, response) {
            if self.waits_for_output(id, cx, &over) {
                return Poll::Pending;
            }
            self.answer_no_room(id, over);
        }
        Poll::Ready(())
    }

    /// Whether the exchange waits for room now; its handler is woken when there is some, or when it has waited for too
    /// long.
    fn waits_for_room(&self, id: ExchangeId, want: Priority, over: &OverBudget) -> bool {
        let is_ours = self.with(id, |_active| ()).is_some();
        is_ours && self.enqueue_in_table(id.key(), want, over)
    }

    /// Writes an answer; [`Error::OverBudget`] when there is no room for it, and it may be given once more.
    // In each answer: without a frame of its own.
    #[inline(always)]
    fn try_answer(&self, id: ExchangeId, response: &mut Response) -> Option<Result<(), Error>> {
        self.with_reserve(id, |active| {
            active.answer(self.desk(), response)?;
            active.list(self, id.key());
            Ok(())
        })
    }

    fn answer_no_room(&self, id: ExchangeId, over: OverBudget) {
        self.with(id, |active| {
            active.answer_no_room(self.desk(), over);
            active.list(self, id.key());
        });
    }

    /// What became of output: whether it was written, if the exchange is still there. If not, its handler is woken when
    /// there is room.
    pub(crate) fn written(
        &self,
        id: ExchangeId,
        cx: &Context<'_>,
        written: Option<Result<bool, Error>>,
    ) -> Poll<Result<(), Error>> {
        match written {
            None => Poll::Ready(Err(Error::Disconnected)),
            Some(Err(Error::OverBudget(over))) if self.waits_for_output(id, cx, &over) => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(true)) => Poll::Ready(Ok(())),
            Some(Ok(false)) => Poll::Pending,
        }
    }

    /// Whether what found no room for its output waits: for the output that is on its way, or for memory. Its handler
    /// is woken.
    fn waits_for_output(&self, id: ExchangeId, cx: &Context<'_>, over: &OverBudget) -> bool {
        let is_sending = self.with(id, |_active| ()).is_some() && self.line(id.key()).is_sending();
        let waits = is_sending || self.waits_for_room(id, Priority::Output, over);
        if waits {
            self.with(id, |active| active.writer = Some(UserWaker::of(cx)));
        }
        waits
    }

    /// Runs `set` on an exchange that may still change its protocol. What it takes with it and what it answers with are
    /// dropped while nothing is borrowed: they are the program's.
    pub(crate) fn before_upgrade<T>(&self, id: ExchangeId, set: impl FnOnce(&mut Active) -> T) -> Result<(), Error> {
        let mut set = Some(set);
        let replaced = self.with(id, |active| {
            let is_due = matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
            if active.is_closing() || !is_due {
                return Err(active.course.error());
            }
            if active.exchange.request() == RequestState::Body {
                return Err(Error::Misuse(Misuse::BodyUnread));
            }
            Ok(set.take().map(|set| set(active)))
        });
        replaced.unwrap_or(Err(Error::Disconnected)).map(drop)
    }
}
