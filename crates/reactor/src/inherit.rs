//! Listeners that one process hands to the next.
//!
//! Two ways to say which descriptors they are: that of systemd (sd_listen_fds(3): `LISTEN_FDS`, `LISTEN_PID` and
//! `LISTEN_FDNAMES`), and a list of numbers and names in `PLIMSOLL_LISTENERS`, such as `7:http,8:admin`, which
//! [`pass_on`] writes: it needs no particular numbers, and no number of a process that is not there yet.
#![forbid(unsafe_code)]

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::env::VarError;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use crate::net::{Shared, SharedListener};
use crate::{Errno, sys};

/// The first descriptor behind standard input, output and error, of systemd's.
const FIRST: i32 = 3;
const OURS: &str = "PLIMSOLL_LISTENERS";

/// A listener that this process was started with.
#[derive(Debug)]
pub struct Inherited {
    /// As it was given: `FileDescriptorName=` of a systemd socket, or the name given to [`pass_on`]. Empty for none.
    pub name: String,
    /// The socket.
    pub listener: SharedListener,
}

/// Why listeners could not be taken over, or passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InheritError {
    /// A variable of the environment is not as it should be.
    Variable {
        /// Its name.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// The system refused.
    Descriptor {
        /// The number that was named, or that was to be passed on.
        number: i32,
        /// What it said.
        errno: Errno,
    },
    /// It is a listener of a simulated kernel.
    Simulated,
}

/// Takes the listeners that this process was started with: by systemd, or by [`pass_on`]. None when there are none, and
/// from the second call on. Call it first of all, before anything else uses descriptors that the environment names.
///
/// # Errors
///
/// [`InheritError`]: what the environment says is not so. What was taken before is closed.
pub fn inherited() -> Result<Vec<Inherited>, InheritError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let named = named(std::env::var, std::process::id())?;
    named
        .into_iter()
        .map(|(number, name)| match sys::inherit(number) {
            Ok(socket) => Ok(Inherited { name, listener: SharedListener::from(socket) }),
            Err(errno) => Err(InheritError::Descriptor { number, errno }),
        })
        .collect()
}

/// The numbers and names of descriptors, as the environment says.
fn named(
    variable: impl Fn(&'static str) -> Result<String, VarError>,
    process: u32,
) -> Result<Vec<(i32, String)>, InheritError> {
    let text = |name: &'static str| match variable(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => {
            Err(InheritError::Variable { name, value: value.to_string_lossy().into_owned() })
        }
    };
    let wrong = |name: &'static str, value: &str| InheritError::Variable { name, value: value.to_owned() };
    if let Some(list) = text(OURS)? {
        let entry = |entry: &str| {
            let (number, name) = entry.split_once(':')?;
            Some((number.parse::<i32>().ok().filter(|&number| number >= FIRST)?, name.to_owned()))
        };
        let named = list.split(',').map(entry).collect::<Option<Vec<_>>>().ok_or_else(|| wrong(OURS, &list))?;
        let is_twice = |at: usize| named[..at].iter().any(|(number, _)| *number == named[at].0);
        return if (0..named.len()).any(is_twice) { Err(wrong(OURS, &list)) } else { Ok(named) };
    }
    let Some(count) = text("LISTEN_FDS")? else { return Ok(Vec::new()) };
    let of = text("LISTEN_PID")?.unwrap_or_default();
    if of.parse::<u32>().map_err(|_| wrong("LISTEN_PID", &of))? != process {
        // They are meant for another, who has started this one.
        return Ok(Vec::new());
    }
    let numbers = count.parse::<u16>().map_err(|_| wrong("LISTEN_FDS", &count))?;
    let names = text("LISTEN_FDNAMES")?.unwrap_or_default();
    let mut names = names.split(':');
    Ok((FIRST..).take(numbers.into()).map(|number| (number, names.next().unwrap_or_default().to_owned())).collect())
}

/// Listeners on their way to a program that is about to be started: keep it until that has been.
#[derive(Debug)]
#[must_use = "dropped before the program is started, it leaves that without its listeners"]
pub struct PassedOn {
    _open: Vec<OwnedFd>,
}

/// Lets a program that is about to be started have listeners, by name; it takes them with [`inherited`]. A connection
/// that comes meanwhile waits in their queues.
///
/// Programs that other threads start until [`PassedOn`] is dropped have the descriptors open, too.
///
/// ```
/// use std::net::TcpListener;
/// use std::os::fd::OwnedFd;
/// use std::process::Command;
///
/// let socket = TcpListener::bind("127.0.0.1:0")?;
/// let mut next = Command::new("true");
/// let passed = plimsoll_reactor::pass_on(&mut next, [("http", OwnedFd::from(socket).into())])?;
/// assert!(next.status()?.success());
/// drop(passed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`InheritError`]: it is a listener of a simulated kernel, or the system refused.
///
/// # Panics
///
/// When a name has a `,`.
pub fn pass_on<'a>(
    program: &mut Command,
    listeners: impl IntoIterator<Item = (&'a str, SharedListener)>,
) -> Result<PassedOn, InheritError> {
    let (mut entries, mut passed) = (Vec::new(), Vec::new());
    for (name, listener) in listeners {
        assert!(!name.contains(','), "a comma stands between listeners");
        let Shared::Real(socket) = listener.0 else { return Err(InheritError::Simulated) };
        let number = socket.as_raw_fd();
        let socket = sys::inheritable(socket).map_err(|errno| InheritError::Descriptor { number, errno })?;
        entries.push(format!("{number}:{name}"));
        passed.push(socket);
    }
    program.env(OURS, entries.join(","));
    Ok(PassedOn { _open: passed })
}

impl fmt::Display for InheritError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name: OURS, value } => {
                write!(f, "{OURS} is {value:?}, and not a list such as `7:http,8:admin`")
            }
            Self::Variable { name, value } => write!(f, "{name} is {value:?}, and not a number: see sd_listen_fds(3)"),
            Self::Descriptor { number, errno } => {
                write!(f, "descriptor {number} cannot be handed over ({errno}): look at what starts this process")
            }
            Self::Simulated => f.write_str("a listener of a simulated kernel cannot be handed to a program"),
        }
    }
}

impl core::error::Error for InheritError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Descriptor { errno, .. } => Some(errno),
            Self::Variable { .. } | Self::Simulated => None,
        }
    }
}

#[cfg(test)]
mod tests;
