//! What travels between the ends of a connection: bytes, their end, resets; and how an end dies.
//!
//! An end is **live** until it is killed, by a reset that arrives or by waiting too long for an acknowledgement. It
//! keeps what had arrived, tells its error once, and after that end-of-file and `EPIPE`. What one end does reaches the
//! other only over the link, in order, after the connection's latency; a link that is down for ever swallows it.
#![forbid(unsafe_code)]

use super::config::nanos;
use super::events::Event;
use super::faults::Fault;
use super::kernel::Kernel;
use super::network::{Conn, Holder, Life, Link};
use super::pipe::{Departure, Tail};
use super::trace::Entry;
use crate::Errno;

impl Kernel {
    /// A connection that was just looked up.
    pub(crate) fn conns_mut(&mut self, id: u64) -> &mut Conn {
        self.network.conn_mut(id).expect("the caller has just looked it up")
    }

    /// Sends on whatever the window and the link allow.
    pub(crate) fn transmit(&mut self, id: u64, side: usize) {
        let segment_max = self.config.segment_bytes_max;
        let Some(conn) = self.network.conn(id) else { return };
        if conn.pipes[side].departure(segment_max).is_none() {
            return;
        }
        if conn.link == Link::Up && self.fault(Fault::BlackHole) {
            self.link_down(id);
        }
        match self.conns_mut(id).link {
            Link::Up => self.transmit_now(id, side),
            Link::DownUntil(_) | Link::Down => self.arm_user_timeout(id, side),
        }
    }

    fn transmit_now(&mut self, id: u64, side: usize) {
        let segment_max = self.config.segment_bytes_max;
        if let Some(timer) = self.conns_mut(id).timers[side].take() {
            self.events.remove(timer);
        }
        while let Some(departure) = self.conns_mut(id).pipes[side].departure(segment_max) {
            let (mut len, mut late) = (0, 0);
            if let Departure::Segment(whole) = departure {
                len = whole;
                if whole > 1 && self.fault(Fault::Segmented) {
                    len = self.rng.part(whole);
                    let latency = self.conns_mut(id).latency;
                    late = self.rng.between(0, latency);
                }
            }
            let now = self.now;
            let conn = self.conns_mut(id);
            let at = conn.arrival[side].max(now + conn.latency + late);
            conn.arrival[side] = at;
            let (departure, event) = match departure {
                Departure::Segment(_) => (Departure::Segment(len), Event::Segment { conn: id, side, len }),
                Departure::Finish => (Departure::Finish, Event::Finish { conn: id, side }),
            };
            conn.pipes[side].depart(departure);
            self.events.add(at, event);
        }
    }

    /// Bytes sent by `side` arrive.
    pub(crate) fn segment_arrives(&mut self, id: u64, side: usize, len: usize) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        if conn.pipes[side].tail() == Tail::Cut {
            return;
        }
        let receiver = &conn.ends[1 - side];
        if receiver.holder == Holder::Closed || receiver.life != Life::Live {
            return self.send_reset(id, side);
        }
        conn.pipes[side].arrive(len);
        self.record(Entry::Arrived { conn: id, side, len });
        self.transmit(id, side);
        self.changed(id);
    }

    /// The end of what `side` sends arrives.
    pub(crate) fn finish_arrives(&mut self, id: u64, side: usize) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        let receiver = &conn.ends[1 - side];
        let unheard = receiver.holder == Holder::Closed || receiver.life != Life::Live;
        if unheard || conn.pipes[side].tail() != Tail::Flying {
            return;
        }
        conn.pipes[side].arrive_finish();
        self.changed(id);
    }

    /// Tells `side`, over the link, that the connection is no more.
    pub(crate) fn send_reset(&mut self, id: u64, side: usize) {
        let now = self.now;
        let Some(conn) = self.network.conn_mut(id) else { return };
        let Some(leaves) = conn.leaves_at(now) else { return };
        let at = conn.arrival[1 - side].max(leaves + conn.latency);
        conn.arrival[1 - side] = at;
        self.events.add(at, Event::Reset { conn: id, side });
    }

    pub(crate) fn reset_arrives(&mut self, id: u64, side: usize) {
        let Some(conn) = self.network.conn(id) else { return };
        // Linux: a reset after the peer's end-of-file means that our bytes found nobody.
        let errno = if conn.pipes[1 - side].tail() == Tail::Arrived { libc::EPIPE } else { libc::ECONNRESET };
        self.kill(id, side, errno);
    }

    /// Ends one end of a connection.
    pub(crate) fn kill(&mut self, id: u64, side: usize, errno: i32) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        let end = &mut conn.ends[side];
        if end.life != Life::Live || end.holder == Holder::Closed {
            return;
        }
        end.life = Life::Failed(Errno(errno));
        conn.pipes[side].cut();
        let timer = conn.timers[side].take();
        if let Some(timer) = timer {
            self.events.remove(timer);
        }
        self.record(Entry::Killed { conn: id, side, errno: Errno(errno) });
        self.changed(id);
    }

    /// A box in the middle resets both ends.
    pub(crate) fn reset_both(&mut self, id: u64) {
        self.kill(id, 0, libc::ECONNRESET);
        self.kill(id, 1, libc::ECONNRESET);
    }

    /// The owner of an end has closed it.
    pub(crate) fn close_end(&mut self, id: u64, side: usize, abort: bool) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        debug_assert!(conn.ends[side].holder != Holder::Closed, "an end is closed once");
        conn.ends[side].holder = Holder::Closed;
        let other = conn.ends[1 - side].holder;
        if matches!(other, Holder::Closed | Holder::Unborn) {
            return self.forget(id);
        }
        if conn.ends[side].life != Life::Live {
            return;
        }
        let unread = conn.pipes[1 - side].arrived() > 0;
        if abort || unread {
            conn.pipes[side].drop_unsent();
            self.send_reset(id, 1 - side);
        } else {
            conn.pipes[side].finish();
            if conn.is_unix() {
                // Who sends to it is told at once.
                conn.pipes[1 - side].drop_unsent();
                conn.pipes[1 - side].finish();
            }
            self.transmit(id, side);
        }
    }

    /// Takes a connection that nobody has any more out of the world.
    pub(crate) fn forget(&mut self, id: u64) {
        let Some(conn) = self.network.remove(id) else { return };
        for timer in conn.timers.into_iter().flatten() {
            self.events.remove(timer);
        }
    }

    /// Operations on both ends are tried again.
    pub(crate) fn changed(&mut self, id: u64) {
        let Some(conn) = self.network.conn(id) else { return };
        for holder in [conn.ends[0].holder, conn.ends[1].holder] {
            if let Holder::Socket(fd) = holder {
                self.wake(fd);
            }
        }
    }

    /// The link goes down, for a while or for ever.
    pub(crate) fn link_down(&mut self, id: u64) {
        let longest = nanos(self.config.faults.black_hole_max).max(1);
        let forever = self.rng.below(4) == 0;
        let link = if forever { Link::Down } else { Link::DownUntil(self.now + self.rng.between(1, longest)) };
        self.conns_mut(id).link = link;
        if let Link::DownUntil(at) = link {
            self.events.add(at, Event::LinkUp(id));
        }
    }

    pub(crate) fn link_up(&mut self, id: u64) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        conn.link = Link::Up;
        // Not tried for a new fault: a link that comes back carries something.
        for side in [0, 1] {
            if self.conns_mut(id).pipes[side].departure(1).is_some() {
                self.transmit_now(id, side);
            }
        }
    }

    /// Bytes of `side` are not acknowledged: unless the link comes back, it gives up one day.
    fn arm_user_timeout(&mut self, id: u64, side: usize) {
        let conn = self.conns_mut(id);
        let end = &conn.ends[side];
        if conn.timers[side].is_some() || end.holder == Holder::Closed || end.life != Life::Live {
            return;
        }
        let user_timeout = end.user_timeout;
        let timer = self.events.add(self.now.saturating_add(user_timeout), Event::Timeout { conn: id, side });
        self.conns_mut(id).timers[side] = Some(timer);
    }
}
