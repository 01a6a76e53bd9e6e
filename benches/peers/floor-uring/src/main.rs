//! The floor on io_uring: one thread that counts the ends of requests and sends a fixed answer for each. No server that
//! parses can cost less.
//!
//! `floor-uring ADDR TARGET`: the answer is that to a `GET` of TARGET, made once. Prints `listening on http://ADDR` when it is ready.
//!
//! * **I-STATIC**: what a submitted entry points to lives until the process ends: the answers and the buffers are
//!   leaked.
//! * **I-RETURNED**: a buffer is looked at between the completion that names it and its return to the ring, and by
//!   nobody else.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};
use peer_answers::floor::{Answers, Counted};

#[derive(Default)]
struct Connection {
    counted: Counted,
    receives: bool,
    sends: bool,
}

struct Floor {
    ring: IoUring,
    listener: i32,
    answers: &'static Answers,
    buffers: Buffers,
    /// By descriptor.
    connections: Vec<Connection>,
}

/// The ring of provided buffers.
struct Buffers {
    entries: *mut BufRingEntry,
    bytes: *mut u8,
    tail: u16,
}

impl Buffers {
    fn register(ring: &IoUring) -> io::Result<Buffers> {
        let layout = std::alloc::Layout::from_size_align(COUNT as usize * size_of::<BufRingEntry>(), 4096);
        let layout = layout.map_err(io::Error::other)?;
        // SAFETY: I-STATIC. The layout has a size; zeros are entries.
        let entries = unsafe { std::alloc::alloc_zeroed(layout) }.cast::<BufRingEntry>();
        let bytes = Vec::leak(vec![0_u8; COUNT as usize * BUFFER_BYTES]).as_mut_ptr();
        // SAFETY: I-STATIC. It is a page with room for COUNT entries, a power of two.
        unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, COUNT, GROUP, 0) }?;
        let mut buffers = Buffers { entries, bytes, tail: 0 };
        for id in 0..COUNT {
            buffers.give(id);
        }
        Ok(buffers)
    }

    fn give(&mut self, id: u16) {
        // SAFETY: I-RETURNED. Both indices are below COUNT, and the entry at the tail is not the kernel's before the
        // tail moves.
        unsafe {
            let entry = &mut *self.entries.add((self.tail % COUNT) as usize);
            entry.set_addr(self.bytes.add(id as usize * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = &*BufRingEntry::tail(self.entries).cast::<AtomicU16>();
            tail.store(self.tail, Ordering::Release);
        }
    }

    fn get(&self, id: u16, len: usize) -> &[u8] {
        assert!(id < COUNT && len <= BUFFER_BYTES);
        // SAFETY: I-RETURNED. The kernel has filled so much of it.
        unsafe { std::slice::from_raw_parts(self.bytes.add(id as usize * BUFFER_BYTES), len) }
    }
}

impl Floor {
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: I-STATIC.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // An error shows again at the next call.
            let _later = self.ring.submit();
        }
    }

    fn accept(&mut self) {
        let entry = opcode::AcceptMulti::new(Fd(self.listener)).build();
        self.push(&entry.user_data(ACCEPT));
    }

    fn receive(&mut self, fd: i32) {
        self.connections[fd as usize].receives = true;
        let entry = opcode::RecvMulti::new(Fd(fd), GROUP).build();
        self.push(&entry.user_data(RECEIVE | fd as u64));
    }

    fn send(&mut self, fd: i32) {
        let connection = &mut self.connections[fd as usize];
        let unsent = self.answers.next(&connection.counted);
        if connection.sends || unsent.is_empty() {
            return;
        }
        connection.sends = true;
        let entry = opcode::Send::new(Fd(fd), unsent.as_ptr(), unsent.len() as u32).flags(libc::MSG_NOSIGNAL).build();
        self.push(&entry.user_data(SEND | fd as u64));
    }

    fn complete(&mut self, entry: &cqueue::Entry) {
        let (operation, fd) = (entry.user_data() & !0xFFFF_FFFF, entry.user_data() as i32);
        match operation {
            ACCEPT => self.accepted(entry),
            RECEIVE => self.received(fd, entry),
            _ => {
                let connection = &mut self.connections[fd as usize];
                connection.sends = false;
                match entry.result() {
                    sent if sent >= 0 => self.answers.sent(&mut connection.counted, sent as usize),
                    // SAFETY: I-STATIC. It takes no address.
                    _ => drop(unsafe { libc::shutdown(fd, libc::SHUT_RDWR) }),
                }
                self.go_on(fd);
            }
        }
    }

    fn accepted(&mut self, entry: &cqueue::Entry) {
        let fd = entry.result();
        if fd >= 0 {
            let on = 1_i32;
            // SAFETY: I-STATIC. The option is read before the call returns.
            unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), 4) };
            if self.connections.len() <= fd as usize {
                self.connections.resize_with(fd as usize + 1, Connection::default);
            }
            self.connections[fd as usize] = Connection::default();
            self.receive(fd);
        }
        if !cqueue::more(entry.flags()) {
            self.accept();
        }
    }

    fn received(&mut self, fd: i32, entry: &cqueue::Entry) {
        if let Some(id) = cqueue::buffer_select(entry.flags()) {
            let len = entry.result().max(0) as usize;
            self.answers.received(&mut self.connections[fd as usize].counted, self.buffers.get(id, len));
            self.buffers.give(id);
        }
        if !cqueue::more(entry.flags()) {
            self.connections[fd as usize].receives = false;
            if entry.result() > 0 || entry.result() == -libc::ENOBUFS {
                self.receive(fd);
            }
        }
        self.go_on(fd);
    }

    /// Sends what there is, or closes when nothing is under way any more.
    fn go_on(&mut self, fd: i32) {
        let connection = &self.connections[fd as usize];
        if connection.receives {
            self.send(fd);
        } else if !connection.sends {
            // SAFETY: I-STATIC. No operation has this descriptor, and nobody else knows it.
            unsafe { libc::close(fd) };
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(2).unwrap_or_else(|| "/pipeline".into());
    let answers = Answers::to(&target).ok_or("nothing at this target")?;
    let listener = TcpListener::bind(peer_answers::address())?;
    // SAFETY: I-STATIC. It takes no address.
    unsafe { libc::listen(listener.as_raw_fd(), BACKLOG) };
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(ENTRIES)?;
    let buffers = Buffers::register(&ring)?;
    println!("listening on http://{}", listener.local_addr()?);
    let answers = Box::leak(Box::new(answers));
    let mut floor = Floor { ring, listener: listener.as_raw_fd(), answers, buffers, connections: Vec::new() };
    floor.accept();
    let mut completed: Vec<cqueue::Entry> = Vec::new();
    loop {
        match floor.ring.submit_and_wait(1) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => return Err(error.into()),
            _ => {}
        }
        completed.extend(floor.ring.completion());
        for entry in completed.drain(..) {
            floor.complete(&entry);
        }
    }
}

const BACKLOG: i32 = 4096;
const ENTRIES: u32 = 1024;
const COMPLETIONS: u32 = 16 * 1024;
const GROUP: u16 = 0;
/// Provided buffers; a power of two, and their entries fill one page at most.
const COUNT: u16 = 256;
const BUFFER_BYTES: usize = 4096;
const ACCEPT: u64 = 1 << 32;
const RECEIVE: u64 = 2 << 32;
const SEND: u64 = 3 << 32;
