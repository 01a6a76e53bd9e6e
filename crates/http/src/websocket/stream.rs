//! A WebSocket on a stream of HTTP/2 (RFC 8441): the same steps as in the table, made by a task.

use ::core::future::{Future, poll_fn};
use ::core::pin::pin;
use ::core::task::Poll;
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::Kind;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Lease, OverBudget, SendBytes, signal, sleep, timeout};

use super::control::static_close;
use super::deadlines::{Due, overdue};
use super::end::WebSocketEnd;
use super::ends::{give_way, go_away, tell_closed};
use super::entry::{Consumer, Socket};
use super::flow::Flow;
use super::opening::{self, Opening};
use super::place::{Place, Stream};
use super::room::{MEMORY_RETRY, enqueue};
use super::turn::{open, turn};
use super::wire::{Dropped, Phase, Wire};
use crate::base::error::Error;
use crate::exchange::handle::ExchangeHandle;
use crate::exchange::tunnel::Tunnel;
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;
use crate::memory::waits::Grant;

/// Has a task step the WebSocket on the stream of an exchange, once it has that.
pub(crate) fn on_stream(
    handle: &ExchangeHandle,
    opening: Opening,
) -> Result<impl FnOnce(Tunnel) -> Result<(), Error> + use<>, Error> {
    let Opening { socket, start } = opening;
    let charge = handle.connection_desk().pool.budget().charge(Kind::Codec, STREAM_BYTES)?;
    let stream = Rc::new(Stream::new(handle.clone(), socket.into_inner(), charge));
    Ok(move |tunnel| {
        drop(plimsoll_runtime::spawn(drive(Rc::clone(&stream), tunnel))?);
        stream.desk().counters().websocket();
        let started = opening::begin(start, Place::Stream(Rc::clone(&stream)));
        stream.socket.borrow_mut().note_started(stream.desk(), started);
        Ok(())
    })
}

/// What came of waiting.
enum Waited {
    Bytes(Lease),
    End,
    Listed,
    Elapsed,
    Stopping,
    /// Others wait for memory.
    Told,
    /// There was no room for what came, for too long.
    NoRoom,
    /// It was its turn among those that wait for memory, or another has taken its place.
    Room,
}

/// Steps the WebSocket until it is over.
async fn drive(stream: Rc<Stream>, mut tunnel: Tunnel) {
    let (place, worker) = (Place::Stream(Rc::clone(&stream)), stream.desk());
    open(&place, &mut stream.socket.borrow_mut());
    let (mut tells_stop, mut tells_end, mut is_finished) = (true, true, false);
    let (mut until, mut retry_at) = (None, None);
    // Received, and no room for it.
    let mut held = None;
    // Memory for this turn, and for the first of what it sends.
    let mut granted: Option<Grant> = None;
    loop {
        let is_full = {
            let mut socket = stream.socket.borrow_mut();
            turn(&place, &mut socket);
            held.take_if(|_| !socket.wire.is_listening());
            if held.is_some() {
                socket.wire.flow.block_receive();
            }
            !socket.wire.has_room(worker)
        };
        match send(&stream, &mut tunnel, granted.take()).await {
            Ok(has_sent) => {
                let wire = &mut stream.socket.borrow_mut().wire;
                if has_sent {
                    wire.get_on();
                }
                note_wait(wire, &mut retry_at);
                stand_in_line(&stream, wire);
            }
            Err(Error::TimedOut) => return finish(&stream, WebSocketEnd::TimedOut),
            Err(_) => return finish(&stream, WebSocketEnd::Disconnected),
        }
        let has_left = !stream.socket.borrow().wire.flow.is_send_blocked();
        if is_full && has_left && stream.socket.borrow().wire.is_open() {
            // What was received behind the message that filled it.
            continue;
        }
        let (reads, due) = look(&stream, worker, retry_at, &mut until);
        if has_left && stream.socket.borrow().wire.phase == Phase::Ending {
            if !is_finished && !send_unsent_close(&stream, &mut tunnel).await {
                return finish(&stream, WebSocketEnd::NoRoom);
            }
            if ::core::mem::replace(&mut is_finished, true) || tunnel.finish().is_err() {
                return finish(&stream, WebSocketEnd::Disconnected);
            }
            stream.socket.borrow_mut().wire.phase = Phase::Lingering(Dropped::default());
            continue;
        }
        let waited = wait(&stream, &mut tunnel, reads, due, (tells_stop, tells_end)).await;
        {
            let wire = &mut stream.socket.borrow_mut().wire;
            note_wait(wire, &mut retry_at);
            stand_in_line(&stream, wire);
        }
        match waited {
            Waited::Bytes(lease) => held = take_in(&mut stream.socket.borrow_mut(), worker, Bytes::Owned(lease)),
            Waited::End => return finish(&stream, WebSocketEnd::Disconnected),
            Waited::NoRoom if stream.socket.borrow().wire.is_listening() => {
                fail_without_room(worker, &mut stream.socket.borrow_mut().wire);
                continue;
            }
            Waited::NoRoom => return finish(&stream, WebSocketEnd::NoRoom),
            Waited::Listed => {}
            Waited::Room => granted = take_turn(&stream),
            Waited::Elapsed if retry_at.is_some() => {}
            Waited::Elapsed => {
                let mut socket = stream.socket.borrow_mut();
                if !overdue(worker, &mut socket.wire) {
                    drop(socket);
                    return finish(&stream, WebSocketEnd::TimedOut);
                }
            }
            Waited::Stopping => {
                tells_stop = false;
                go_away(worker, &mut stream.socket.borrow_mut().wire);
            }
            Waited::Told => {
                tells_end = false;
                give_way(worker, &mut stream.socket.borrow_mut().wire);
                continue;
            }
        }
        let mut socket = stream.socket.borrow_mut();
        if !retry(&mut socket, &mut retry_at, worker.config.memory_timeout) {
            if socket.wire.flow.is_send_blocked() {
                socket.wire.count_timed_out(worker);
                socket.count_overrun();
            } else {
                tunnel.give_up_rest();
            }
            if !socket.wire.give_output_up() {
                drop(socket);
                return finish(&stream, WebSocketEnd::NoRoom);
            }
            fail_without_room(worker, &mut socket.wire);
        } else if socket.wire.flow == Flow::Retrying
            && let Some(fresh) = held.take()
        {
            held = take_in(&mut socket, worker, fresh);
        }
    }
}

/// Says that there was no room, if nothing of that could be said before; whether that has left.
async fn send_unsent_close(stream: &Stream, tunnel: &mut Tunnel) -> bool {
    if !stream.socket.borrow().wire.has_unsent_close() {
        return true;
    }
    let frame = static_close(Some(CloseCode::TRY_LATER)).unwrap_or_default();
    let send_timeout = stream.socket.borrow().send_timeout();
    matches!(timeout(send_timeout, tunnel.send_static(frame)).await, Ok(Ok(())))
}

/// It has waited for room for too long.
fn fail_without_room(worker: &Desk, wire: &mut Wire) {
    wire.resume();
    wire.fail(worker, &OverBudget::new(0).into());
}

/// It waits in line no longer: it looks again, with what it was granted, unless its task takes that in a turn of its
/// own.
fn take_turn(stream: &Stream) -> Option<Grant> {
    let (worker, key) = (stream.desk(), stream.handle.id.key());
    let mut socket = stream.socket.borrow_mut();
    let mut memory = socket.wire.memory;
    if worker.kept_for.get() == Some(key) {
        memory.grant();
    } else {
        memory.lose_place();
    }
    socket.wire.set_memory(memory);
    if socket.look_again() {
        return None;
    }
    let mut granted = worker.take_kept(key);
    granted.iter_mut().for_each(Grant::release);
    granted
}

/// Has it stand in line for memory, or leave that.
fn stand_in_line(stream: &Stream, wire: &mut Wire) {
    let was_queued = wire.memory.is_queued();
    if wire.flow.is_blocked() {
        enqueue(stream.desk(), stream.waits(), wire);
    } else if wire.flow == Flow::Free && stream.desk().has_waiting() {
        stream.desk().leave_queue_as(&stream.waits());
    }
    if wire.memory.is_queued() && !was_queued {
        stream.handle.port().look_after(stream.handle.id);
    }
}

/// How a wait for memory goes on: it looks again after a while, `retry_at`, also without a place among those that wait.
fn note_wait(wire: &mut Wire, retry_at: &mut Option<Instant>) {
    if wire.flow.is_blocked() {
        if !wire.memory.is_queued() {
            wire.lose_place();
        }
        retry_at.get_or_insert(plimsoll_runtime::now() + MEMORY_RETRY);
    } else if wire.flow == Flow::Free {
        wire.set_memory(MemoryWait::None);
        *retry_at = None;
    }
}

/// Looks again, if it is time to; whether it may wait on. What neither failed nor got on since the last look waits no
/// longer.
fn retry(socket: &mut Socket, retry_at: &mut Option<Instant>, wait_max: Duration) -> bool {
    let now = plimsoll_runtime::now();
    if retry_at.is_none_or(|at| now < at) {
        return true;
    }
    *retry_at = Some(now + MEMORY_RETRY);
    if !socket.wire.flow.is_blocked() {
        socket.wire.resume();
        note_wait(&mut socket.wire, retry_at);
        return true;
    }
    let may_wait = socket.wire.has_waited() < wait_max;
    if may_wait {
        socket.look_again();
    }
    may_wait
}

/// Sends all output, as the stream's windows allow; whether there was any. What finds no room stays where it is.
async fn send(stream: &Stream, tunnel: &mut Tunnel, granted: Option<Grant>) -> Result<bool, Error> {
    let send_timeout = stream.socket.borrow().send_timeout();
    let (mut has_sent, mut granted) = (false, granted);
    loop {
        let piece = {
            let mut socket = stream.socket.borrow_mut();
            let placed = socket.wire.put_pending_close(&stream.desk().pool);
            match &mut socket.wire.work {
                Some(work) => placed.and_then(|()| work.output.next_piece(&stream.desk().pool)),
                None => Ok(None),
            }
        };
        let (piece, is_post) = match piece {
            Ok(None) => (stream.next_post(), true),
            piece => (piece, false),
        };
        drop(granted.take());
        let piece = match piece {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(has_sent),
            Err(_) => {
                stream.socket.borrow_mut().wire.flow.block_send();
                return Ok(has_sent);
            }
        };
        let sent = match piece {
            SendBytes::Lease(lease) => timeout(send_timeout, tunnel.send(lease)).await,
            SendBytes::Static(bytes) => timeout(send_timeout, tunnel.send_static(bytes)).await,
            // Output gathers what others share.
            SendBytes::Shared(bytes) => {
                let copy = stream.desk().pool.try_copy(&bytes, Kind::Buffers)?;
                timeout(send_timeout, tunnel.send(copy)).await
            }
        };
        sent.map_err(|_late| stream.took_nothing())??;
        has_sent = true;
        let flushed = timeout(send_timeout, tunnel.flush()).await;
        flushed.map_err(|_late| stream.took_nothing())??;
        if is_post {
            stream.socket.borrow().note_sent();
        }
    }
}

impl Stream {
    /// What its hub has for it, if it is a member of one: copied, as each stream has its own windows.
    fn next_post(&self) -> Result<Option<SendBytes>, OverBudget> {
        let socket = self.socket.borrow();
        let Some((group, member)) = socket.wire.as_member() else { return Ok(None) };
        if !socket.wire.is_open() {
            group.discard(member);
            return Ok(None);
        }
        let Some(bytes) = group.first(member) else { return Ok(None) };
        let copy = self.desk().pool.try_copy(&bytes, Kind::Buffers)?;
        group.begin_send(member);
        Ok(Some(SendBytes::Lease(copy)))
    }

    /// Its peer has opened no window for too long.
    fn took_nothing(&self) -> Error {
        self.socket.borrow().count_overrun();
        Error::TimedOut
    }
}

/// After a step: wakes who waits, and says whether to read and for how long to wait. `until` when there is time for
/// what is waited for now.
fn look(
    stream: &Stream,
    worker: &Desk,
    retry_at: Option<Instant>,
    until: &mut Option<Instant>,
) -> (bool, Option<Duration>) {
    let mut socket = stream.socket.borrow_mut();
    let Socket { consumer, wire } = &mut *socket;
    if let Consumer::Task(Some(mailbox)) = consumer {
        if !wire.is_open() {
            mailbox.wake_reader();
        }
        if !wire.flow.is_send_blocked() {
            mailbox.wake_writer();
        }
    }
    let is_waiting = wire.holds_message();
    // What is kept for its task is not for what may be received.
    let is_kept = worker.kept_for.get() == Some(stream.handle.id.key());
    let is_ready = wire.is_listening() && !is_waiting && !wire.flow.is_receive_blocked() && !is_kept;
    let reads = is_ready || matches!(wire.phase, Phase::Lingering(_));
    let now = plimsoll_runtime::now();
    match wire.due_in(worker, false) {
        Due::In(after) => *until = Some(now + after),
        Due::Never => *until = None,
        Due::AsBefore => {}
    }
    let due = retry_at.or(*until).map(|until| until.since(now));
    wire.rest(worker);
    (reads, due)
}

/// What comes next; of a stop, and of others who wait for memory, only where they are asked for.
async fn wait(
    stream: &Stream,
    tunnel: &mut Tunnel,
    reads: bool,
    due: Option<Duration>,
    (tells_stop, tells_end): (bool, bool),
) -> Waited {
    let mut stopped = pin!(signal::stopped());
    let mut elapsed = pin!(due.map(sleep));
    let is_queued = stream.socket.borrow().wire.memory.is_queued();
    poll_fn(|cx| {
        if stream.poll_listed(cx) {
            return Poll::Ready(Waited::Listed);
        }
        if is_queued {
            if !stream.desk().has_place(&stream.waits()) {
                return Poll::Ready(Waited::Room);
            }
            tunnel.await_turn(cx);
        }
        if reads && let Poll::Ready(received) = tunnel.poll_recv(cx) {
            return Poll::Ready(match received {
                Ok(Some(bytes)) => Waited::Bytes(bytes),
                Err(Error::OverBudget(_)) => Waited::NoRoom,
                Ok(None) | Err(_) => Waited::End,
            });
        }
        if tells_stop && stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Waited::Stopping);
        }
        if tells_end && tunnel.poll_told(cx).is_ready() {
            return Poll::Ready(Waited::Told);
        }
        match elapsed.as_mut().as_pin_mut() {
            Some(elapsed) => elapsed.poll(cx).map(|()| Waited::Elapsed),
            None => Poll::Pending,
        }
    })
    .await
}

/// Takes in what has come; what finds no room is given back.
fn take_in(socket: &mut Socket, worker: &Desk, fresh: Bytes) -> Option<Bytes> {
    let wire = &mut socket.wire;
    wire.hear();
    if !wire.is_listening() {
        return None;
    }
    let mut fresh = Some(fresh);
    let taken = wire.take_in(&worker.pool, &mut fresh);
    if taken.is_err() {
        wire.flow.block_receive();
    }
    fresh
}

/// It is over: whoever has the socket is told.
fn finish(stream: &Stream, end: WebSocketEnd) {
    let mut socket = stream.socket.borrow_mut();
    socket.wire.end_wait(stream.desk(), &stream.waits());
    socket.wire.note_end(end);
    socket.wire.phase = Phase::Over;
    let consumer = ::core::mem::replace(&mut socket.consumer, Consumer::Task(None));
    let end = socket.wire.end.unwrap_or(end);
    match consumer {
        Consumer::Task(Some(mut mailbox)) => {
            mailbox.wake_reader();
            mailbox.wake_writer();
            socket.consumer = Consumer::Task(Some(mailbox));
        }
        Consumer::Handler(handler) => {
            drop(socket);
            tell_closed(handler, end);
        }
        Consumer::Task(None) => {
            let member = socket.wire.as_member();
            drop(socket);
            member.into_iter().for_each(|(group, member)| group.left(member));
        }
    }
}

/// What a stream is charged: its place, and what the reference to it takes.
const STREAM_BYTES: u64 = (size_of::<Stream>() as u64 + 16).next_multiple_of(16);

#[cfg(test)]
mod tests;
