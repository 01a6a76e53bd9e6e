//! Files: through io_uring where it runs, else on the blocking pool, with the same calls.
//!
//! Buffers are leases: a read fills the spare room of the lease it is given and brings it back. Dropping a future
//! cancels its operation if it can still be cancelled; the lease stays with the driver until the kernel is done with
//! it.
#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use plimsoll_pool::{Kind, Lease};
use plimsoll_reactor::{Completion, Errno, Fd, FdRef, Op, Payload};

use crate::operation::Operation;
use crate::worker::Worker;
use crate::{Error, Misuse, Result};

/// An open file. Dropping it closes it.
pub struct File {
    worker: Rc<Worker>,
    /// Until it is dropped.
    fd: Option<Fd>,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Bytes.
    pub len: u64,
    /// Type and permission bits, as `st_mode`.
    pub mode: u32,
    /// Last modification, since 1970.
    pub modified: Duration,
}

impl Metadata {
    /// Whether it is a regular file.
    pub const fn is_file(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    /// Whether it is a directory.
    pub const fn is_dir(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// Reads the fields of a `struct statx`, whose layout is part of the kernel's interface (statx(2)).
    fn from_statx(bytes: &[u8]) -> Option<Self> {
        const MODE_AT: usize = 28;
        const SIZE_AT: usize = 40;
        const MTIME_AT: usize = 112;
        let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            len: u64_at(SIZE_AT)?,
            mode: u32::from(u16_at(MODE_AT)?),
            modified: Duration::new(u64_at(MTIME_AT)?, u32_at(MTIME_AT + 8)?.min(999_999_999)),
        })
    }
}

/// How to open a file; as [`std::fs::OpenOptions`].
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    flags: i32,
    read: bool,
    write: bool,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Neither reading nor writing yet.
    pub const fn new() -> Self {
        Self { flags: 0, read: false, write: false, mode: 0o666 }
    }

    /// For reading.
    pub const fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// For writing.
    pub const fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Makes it when it is not there.
    pub const fn create(self, create: bool) -> Self {
        self.flag(libc::O_CREAT, create)
    }

    /// Makes it, and fails when it is there.
    pub const fn create_new(self, create: bool) -> Self {
        self.flag(libc::O_CREAT | libc::O_EXCL, create)
    }

    /// Empties it.
    pub const fn truncate(self, truncate: bool) -> Self {
        self.flag(libc::O_TRUNC, truncate)
    }

    /// Permission bits of a file that is made, before the umask.
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Does not wait while it is opened: for the other end of a FIFO, or for a device. Reads and writes wait as ever.
    /// For paths that others choose, before [`File::metadata`] says that it is a file.
    ///
    /// ```
    /// use plimsoll_runtime::fs::OpenOptions;
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let file = OpenOptions::new().read(true).nonblocking(true).open("/dev/null").await?;
    /// assert!(!file.metadata().await?.is_file());
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub const fn nonblocking(self, nonblocking: bool) -> Self {
        self.flag(libc::O_NONBLOCK | libc::O_NOCTTY, nonblocking)
    }

    const fn flag(mut self, flag: i32, on: bool) -> Self {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
        self
    }

    /// Opens the file.
    ///
    /// Cancel safe: a file that was opened after all is closed.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `openat(2)`, [`Error::OverBudget`], [`Error::Misuse`] when the path holds a NUL or neither
    /// reading nor writing was asked for.
    pub async fn open(self, path: impl AsRef<Path>) -> Result<File> {
        let access = match (self.read, self.write) {
            (true, true) => libc::O_RDWR,
            (true, false) => libc::O_RDONLY,
            (false, true) => libc::O_WRONLY,
            (false, false) => return Err(Misuse::FileAccess.into()),
        };
        open(path.as_ref(), access | self.flags, self.mode).await
    }
}

async fn open(path: &Path, flags: i32, mode: u32) -> Result<File> {
    let worker = Worker::current();
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(Misuse::PathHasNul.into());
    }
    let mut lease = worker.pool.try_acquire(bytes.len() + 1, Kind::Buffers)?;
    let taken = lease.extend(bytes) + lease.extend(&[0]);
    assert_eq!(taken, bytes.len() + 1, "the lease was made to fit");
    let completion = run(&worker, Op::Open { path: lease, flags, mode }).await?;
    completion.result?;
    match completion.payload {
        Payload::Fd(fd) => {
            worker.opened();
            Ok(File { worker, fd: Some(fd) })
        }
        other => unreachable!("an open brings a descriptor, not {other:?}"),
    }
}

async fn run(worker: &Rc<Worker>, op: Op<'_>) -> Result<Completion> {
    let operation = Operation::start(worker, op).map_err(|(over, _op)| over)?;
    Ok(operation.await)
}

/// A file's metadata.
///
/// # Errors
///
/// As [`OpenOptions::open`].
pub async fn metadata(path: impl AsRef<Path>) -> Result<Metadata> {
    open(path.as_ref(), libc::O_PATH, 0).await?.metadata().await
}

impl File {
    fn fd(&self) -> FdRef<'_> {
        self.fd.as_ref().expect("it is closed when it is dropped").at()
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Makes or empties a file for writing.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// Reads at an offset into the spare room of a lease. Brings the lease back, longer by what was read; the count 0
    /// is the end of the file.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `pread(2)`; the lease is released.
    ///
    /// # Panics
    ///
    /// When the lease has no spare room.
    pub async fn read_at(&self, lease: Lease, offset: u64) -> Result<(usize, Lease)> {
        assert!(lease.spare_capacity() > 0, "no room to fill");
        let completion = run(&self.worker, Op::ReadAt { fd: self.fd(), lease, offset }).await?;
        returned(completion)
    }

    /// Writes the bytes of a lease at an offset; how many were written, and the lease.
    ///
    /// Dropping it midway leaves it open how much was written.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `pwrite(2)`; the lease is released.
    pub async fn write_at(&self, lease: Lease, offset: u64) -> Result<(usize, Lease)> {
        let completion = run(&self.worker, Op::WriteAt { fd: self.fd(), lease, offset }).await?;
        returned(completion)
    }

    /// Makes data and metadata durable.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `fsync(2)`.
    pub async fn sync_all(&self) -> Result<()> {
        run(&self.worker, Op::Fsync { fd: self.fd(), data_only: false }).await?.result?;
        Ok(())
    }

    /// Makes data durable.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `fdatasync(2)`.
    pub async fn sync_data(&self) -> Result<()> {
        run(&self.worker, Op::Fsync { fd: self.fd(), data_only: true }).await?.result?;
        Ok(())
    }

    /// What is known of the file.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `statx(2)`, and with EBADMSG when that gives less than its interface says;
    /// [`Error::OverBudget`].
    pub async fn metadata(&self) -> Result<Metadata> {
        let lease = self.worker.pool.try_acquire(256, Kind::Buffers)?;
        let completion = run(&self.worker, Op::Stat { fd: self.fd(), lease }).await?;
        let (_, lease) = returned(completion)?;
        Metadata::from_statx(&lease).ok_or(Error::System(Errno(libc::EBADMSG)))
    }
}

fn returned(completion: Completion) -> Result<(usize, Lease)> {
    let count = completion.result?;
    match completion.payload {
        Payload::Lease(lease) => Ok((count as usize, lease)),
        other => unreachable!("file operations bring their lease back, not {other:?}"),
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.worker.close(fd);
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("fd", &self.fd()).finish()
    }
}
