//! Opening files at paths that clients choose.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use http::StatusCode;
use plimsoll_pool::Priority;
use plimsoll_runtime::fs::{File, Metadata, OpenOptions};
use plimsoll_runtime::{Errno, Lease};

use super::content_type;
use crate::exchange::failure::Failure;
use crate::exchange::handle::ExchangeHandle;
use crate::{Error, Response};

/// What opening takes: the path once more, and the metadata.
const OPEN_BYTES: usize = 4 * 1_024;
/// What another has taken by then is waited for again, so often.
pub(super) const WAITS_MAX: usize = 4;

/// What is at a path.
pub(super) enum Found {
    File(Opened),
    Directory,
}

/// A file that is served.
pub(super) struct Opened {
    pub(super) file: File,
    /// Of the open file: whatever becomes of its path.
    pub(super) metadata: Metadata,
    pub(super) content_type: &'static str,
}

/// Why nothing is served.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Nothing is there, it is no file, or it may not be read: which of these is not told.
    NotFound,
    /// No memory or no descriptors, for now.
    NoRoom,
    /// The system's fault.
    Broken(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::OverBudget(_) => Self::NoRoom,
            error => Self::Broken(error),
        }
    }
}

impl From<plimsoll_runtime::Error> for Refusal {
    fn from(error: plimsoll_runtime::Error) -> Self {
        use plimsoll_runtime::Error::{OverBudget, System};
        match error {
            OverBudget(_) | System(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Self::NoRoom,
            System(Errno::NOENT | Errno::NOTDIR | Errno::ACCES | Errno::PERM) => Self::NotFound,
            System(Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO) => Self::NotFound,
            error => Self::Broken(error.into()),
        }
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Failure::from(StatusCode::NOT_FOUND).into(),
            Refusal::NoRoom => Failure::NO_ROOM.into(),
            Refusal::Broken(error) => {
                tracing::error!(%error, "a file could not be opened");
                Failure::from(StatusCode::INTERNAL_SERVER_ERROR).into()
            }
        }
    }
}

/// A path in a buffer with room for `more` bytes.
pub(super) async fn path(
    handle: &ExchangeHandle,
    dir: &Path,
    below: impl Iterator<Item = u8> + Clone,
    more: usize,
) -> Result<Lease, Error> {
    let dir = dir.as_os_str().as_bytes();
    let bytes = dir.len() + below.clone().count() + more;
    let mut path = handle.await_buffer(bytes, Priority::Body).await?;
    debug_assert!(path.spare_capacity() >= bytes, "shorter than a head, so there is no smaller one");
    path.extend(dir);
    below.for_each(|byte| _ = path.extend(&[byte]));
    Ok(path)
}

/// Opens what is at a path. Waits for memory, but not for a FIFO or a device, and lets go of what is no file.
pub(super) async fn open(handle: &ExchangeHandle, path: &Lease) -> Result<Found, Refusal> {
    let mut waits = 0;
    loop {
        match try_open(path).await {
            Err(Refusal::NoRoom) if waits < WAITS_MAX => waits += 1,
            found => return found,
        }
        drop(handle.await_buffer(OPEN_BYTES, Priority::Body).await?);
    }
}

async fn try_open(path: &Lease) -> Result<Found, Refusal> {
    let options = OpenOptions::new().read(true).nonblocking(true);
    let file = options.open(OsStr::from_bytes(path)).await?;
    let metadata = file.metadata().await?;
    match () {
        () if metadata.is_file() => {
            Ok(Found::File(Opened { file, metadata, content_type: content_type::of_path(path) }))
        }
        () if metadata.is_dir() => Ok(Found::Directory),
        () => Err(Refusal::NotFound),
    }
}
