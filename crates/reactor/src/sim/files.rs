//! Files in memory: a tree of paths, and what can be done with an open one.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use core::fmt;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::op::Errno;
use crate::sys::STATX_BYTES;

/// What is at a path.
#[derive(Debug)]
pub(crate) struct Inode {
    number: u64,
    /// File type and permission bits.
    mode: u32,
    bytes: Vec<u8>,
    /// Virtual time of the last write.
    modified: u64,
}

impl Inode {
    const fn is_directory(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }

    /// Where an offset is in its bytes; at their end if it is behind that.
    fn start(&self, offset: u64) -> usize {
        usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len())
    }
}

/// What an open file may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Both,
    /// `O_PATH`: metadata only.
    Path,
}

/// An open file; keeps what it refers to, also when the path is gone.
#[derive(Clone)]
pub(crate) struct OpenFile {
    inode: Rc<RefCell<Inode>>,
    access: Access,
    append: Append,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Append {
    No,
    Always,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile").field("number", &self.inode.borrow().number).field("access", &self.access).finish()
    }
}

impl OpenFile {
    /// `statx(2)`.
    pub(crate) fn stat(&self) -> [u8; STATX_BYTES] {
        statx(&self.inode.borrow())
    }

    /// `fsync(2)`.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        if self.access == Access::Path { Err(Errno(libc::EBADF)) } else { Ok(()) }
    }

    /// How many bytes a read at an offset finds.
    pub(crate) fn readable(&self, len_max: usize, offset: u64) -> Result<usize, Errno> {
        let inode = self.inode.borrow();
        if !matches!(self.access, Access::Read | Access::Both) {
            return Err(Errno(libc::EBADF));
        }
        if inode.is_directory() {
            return Err(Errno(libc::EISDIR));
        }
        if offset > i64::MAX as u64 {
            return Err(Errno(libc::EINVAL));
        }
        Ok(len_max.min(inode.bytes.len() - inode.start(offset)))
    }

    /// Bytes that are [readable](Self::readable).
    pub(crate) fn read(&self, len: usize, offset: u64) -> Vec<u8> {
        let inode = self.inode.borrow();
        let start = inode.start(offset);
        inode.bytes[start..start + len].to_vec()
    }

    /// Whether it may be written to.
    pub(crate) fn check_write(&self) -> Result<(), Errno> {
        if matches!(self.access, Access::Write | Access::Both) { Ok(()) } else { Err(Errno(libc::EBADF)) }
    }

    /// Writes all of `bytes`, at an offset or behind what there is.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64, bytes_max: u64, now: u64) -> Result<(), Errno> {
        let mut inode = self.inode.borrow_mut();
        let start = match self.append {
            Append::Always => inode.bytes.len() as u64,
            Append::No => offset,
        };
        if start.checked_add(bytes.len() as u64).is_none_or(|end| end > bytes_max) {
            return Err(Errno(libc::EFBIG));
        }
        let end = start as usize + bytes.len();
        if inode.bytes.len() < end {
            inode.bytes.resize(end, 0);
        }
        inode.bytes[start as usize..end].copy_from_slice(bytes);
        inode.modified = now;
        Ok(())
    }
}

/// The tree. Every path is absolute and normal; `/` is always there.
pub(crate) struct Files {
    paths: BTreeMap<Vec<u8>, Rc<RefCell<Inode>>>,
    numbers: u64,
    /// Bytes of one file at most.
    pub(super) bytes_max: u64,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("paths", &self.paths.len()).finish()
    }
}

impl Files {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let mut files = Self { paths: BTreeMap::new(), numbers: 0, bytes_max };
        files.insert(b"/".to_vec(), libc::S_IFDIR | 0o755, Vec::new(), 0);
        files
    }

    fn insert(&mut self, path: Vec<u8>, mode: u32, bytes: Vec<u8>, now: u64) -> Rc<RefCell<Inode>> {
        self.numbers += 1;
        let inode = Rc::new(RefCell::new(Inode { number: self.numbers, mode, bytes, modified: now }));
        self.paths.insert(path, Rc::clone(&inode));
        inode
    }

    /// Puts a file at a path, with every directory above it; replaces what was there.
    pub(crate) fn place(&mut self, path: &str, bytes: Vec<u8>, now: u64) -> Result<(), Errno> {
        let path = normal(path.as_bytes());
        self.place_directories(parent(&path), now)?;
        match self.paths.get(&path) {
            Some(inode) if inode.borrow().is_directory() => Err(Errno(libc::EISDIR)),
            _ => {
                self.insert(path, libc::S_IFREG | 0o644, bytes, now);
                Ok(())
            }
        }
    }

    fn place_directories(&mut self, path: &[u8], now: u64) -> Result<(), Errno> {
        match self.paths.get(path) {
            Some(inode) if inode.borrow().is_directory() => return Ok(()),
            Some(_) => return Err(Errno(libc::ENOTDIR)),
            None => {}
        }
        self.place_directories(parent(path), now)?;
        self.insert(path.to_vec(), libc::S_IFDIR | 0o755, Vec::new(), now);
        Ok(())
    }

    /// The bytes of the file at a path.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let inode = self.paths.get(&normal(path.as_bytes()))?.borrow();
        (!inode.is_directory()).then(|| inode.bytes.clone())
    }

    /// Takes the file at a path away; whether one was there.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let path = normal(path.as_bytes());
        let is_file = self.paths.get(&path).is_some_and(|inode| !inode.borrow().is_directory());
        is_file && self.paths.remove(&path).is_some()
    }

    /// `open(2)`, for what [`Op::Open`](crate::Op::Open) can ask for.
    pub(crate) fn open(&mut self, path: &[u8], flags: i32, mode: u32, now: u64) -> Result<OpenFile, Errno> {
        if path.is_empty() {
            return Err(Errno(libc::ENOENT));
        }
        let access = match flags & libc::O_ACCMODE {
            _ if flags & libc::O_PATH != 0 => Access::Path,
            libc::O_RDONLY => Access::Read,
            libc::O_WRONLY => Access::Write,
            libc::O_RDWR => Access::Both,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let writes = matches!(access, Access::Write | Access::Both);
        let wants_directory = flags & libc::O_DIRECTORY != 0 || path.ends_with(b"/");
        let path = normal(path);
        let inode = match self.paths.get(&path) {
            Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => return Err(Errno(libc::EEXIST)),
            Some(inode) => Rc::clone(inode),
            None => match self.paths.get(parent(&path)) {
                Some(above) if !above.borrow().is_directory() => return Err(Errno(libc::ENOTDIR)),
                Some(_) if flags & libc::O_CREAT != 0 && wants_directory => return Err(Errno(libc::EISDIR)),
                Some(_) if flags & libc::O_CREAT != 0 => {
                    self.insert(path, libc::S_IFREG | (mode & 0o7777), Vec::new(), now)
                }
                _ => return Err(Errno(libc::ENOENT)),
            },
        };
        let is_directory = inode.borrow().is_directory();
        if is_directory && (writes || flags & libc::O_CREAT != 0) {
            return Err(Errno(libc::EISDIR));
        }
        if wants_directory && !is_directory {
            return Err(Errno(libc::ENOTDIR));
        }
        if flags & libc::O_TRUNC != 0 && writes {
            let mut inode = inode.borrow_mut();
            inode.bytes.clear();
            inode.modified = now;
        }
        let append = if flags & libc::O_APPEND != 0 { Append::Always } else { Append::No };
        Ok(OpenFile { inode, access, append })
    }
}

/// The metadata of something that is no file.
pub(crate) fn statx_of_socket() -> [u8; STATX_BYTES] {
    statx(&Inode { number: 0, mode: libc::S_IFSOCK | 0o777, bytes: Vec::new(), modified: 0 })
}

/// `struct statx` as the kernel fills it for `STATX_BASIC_STATS`.
fn statx(inode: &Inode) -> [u8; STATX_BYTES] {
    let mut out = [0; STATX_BYTES];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    let size = inode.bytes.len() as u64;
    let links: u32 = if inode.is_directory() { 2 } else { 1 };
    put(core::mem::offset_of!(libc::statx, stx_mask), &libc::STATX_BASIC_STATS.to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_blksize), &4096_u32.to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_nlink), &links.to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_mode), &(inode.mode as u16).to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_ino), &inode.number.to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_size), &size.to_ne_bytes());
    put(core::mem::offset_of!(libc::statx, stx_blocks), &size.div_ceil(512).to_ne_bytes());
    let seconds = (inode.modified / 1_000_000_000) as i64;
    let nanos = (inode.modified % 1_000_000_000) as u32;
    for time in [
        core::mem::offset_of!(libc::statx, stx_atime),
        core::mem::offset_of!(libc::statx, stx_ctime),
        core::mem::offset_of!(libc::statx, stx_mtime),
    ] {
        put(time + core::mem::offset_of!(libc::statx_timestamp, tv_sec), &seconds.to_ne_bytes());
        put(time + core::mem::offset_of!(libc::statx_timestamp, tv_nsec), &nanos.to_ne_bytes());
    }
    out
}

/// The path from the root, without `.`, `..` and doubled slashes.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut out = vec![b'/'];
    out.extend(parts.join(&b'/'));
    out
}

/// The directory of a normal path; the root's is the root.
fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) if at > 0 => &path[..at],
        _ => b"/",
    }
}
