//! The line: a number of bytes, parsed once.
#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// How many bytes a process may hold: at least 1.
///
/// Made by [`bytes`](Self::bytes), [`kib`](Self::kib), [`mib`](Self::mib), [`gib`](Self::gib), or parsed from a number
/// and a unit: `B`, `KiB`, `MiB`, `GiB`, or none for bytes. Blanks between the two are allowed, and upper or lower case
/// makes no difference.
///
/// ```
/// use plimsoll_pool::MemoryLimit;
///
/// let limit: MemoryLimit = "64MiB".parse()?;
/// assert_eq!(limit, MemoryLimit::mib(64));
/// assert_eq!(limit.as_bytes(), 64 * 1024 * 1024);
/// assert_eq!(limit.to_string(), "64MiB");
/// assert!("64MB".parse::<MemoryLimit>().is_err(), "powers of ten are refused, not guessed at");
/// # Ok::<(), plimsoll_pool::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryLimit(NonZeroU64);

impl MemoryLimit {
    /// A limit of `bytes` bytes.
    ///
    /// # Panics
    ///
    /// If `bytes` is 0: a process that may hold nothing cannot run.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        match NonZeroU64::new(bytes) {
            Some(bytes) => Self(bytes),
            None => panic!("a memory limit is at least 1 byte"),
        }
    }

    /// A limit of `kib` times 1,024 bytes.
    ///
    /// # Panics
    ///
    /// If `kib` is 0 or the bytes do not fit into 64 bits.
    #[must_use]
    pub const fn kib(kib: u64) -> Self {
        Self::scaled(kib, KIB)
    }

    /// A limit of `mib` times 1,048,576 bytes.
    ///
    /// # Panics
    ///
    /// If `mib` is 0 or the bytes do not fit into 64 bits.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self::scaled(mib, MIB)
    }

    /// A limit of `gib` times 1,073,741,824 bytes.
    ///
    /// # Panics
    ///
    /// If `gib` is 0 or the bytes do not fit into 64 bits.
    #[must_use]
    pub const fn gib(gib: u64) -> Self {
        Self::scaled(gib, GIB)
    }

    /// The limit in bytes, at least 1.
    #[must_use]
    pub const fn as_bytes(self) -> u64 {
        self.0.get()
    }

    const fn scaled(count: u64, unit_bytes: u64) -> Self {
        match count.checked_mul(unit_bytes) {
            Some(bytes) => Self::bytes(bytes),
            None => panic!("a memory limit fits into 64 bits"),
        }
    }
}

impl FromStr for MemoryLimit {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Self, ParseLimitError> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Err(ParseLimitError::Empty);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        if number.is_empty() {
            return Err(ParseLimitError::Number);
        }
        let unit = unit.trim_ascii_start();
        let unit_bytes = match unit {
            "" => 1,
            _ if unit.eq_ignore_ascii_case("B") => 1,
            _ if unit.eq_ignore_ascii_case("KiB") => KIB,
            _ if unit.eq_ignore_ascii_case("MiB") => MIB,
            _ if unit.eq_ignore_ascii_case("GiB") => GIB,
            _ => return Err(ParseLimitError::Unit),
        };
        // Only digits are left, so the one way to fail is to be too large.
        let count: u64 = number.parse().map_err(|_| ParseLimitError::Overflow)?;
        let bytes = count.checked_mul(unit_bytes).ok_or(ParseLimitError::Overflow)?;
        NonZeroU64::new(bytes).map(Self).ok_or(ParseLimitError::Zero)
    }
}

impl fmt::Display for MemoryLimit {
    /// The largest unit that says it exactly; parses back to the same limit.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_bytes();
        let (unit_bytes, unit) = [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")]
            .into_iter()
            .find(|(unit_bytes, _)| bytes.is_multiple_of(*unit_bytes))
            .unwrap_or((1, "B"));
        write!(f, "{}{unit}", bytes / unit_bytes)
    }
}

/// Why a text is not a [`MemoryLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseLimitError {
    /// There is no text.
    Empty,
    /// It does not begin with a whole number.
    Number,
    /// The unit is none of `B`, `KiB`, `MiB`, `GiB`.
    Unit,
    /// The bytes do not fit into 64 bits.
    Overflow,
    /// It is 0.
    Zero,
}

impl fmt::Display for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the memory limit is empty: write a number and a unit, as in 64MiB",
            Self::Number => "the memory limit does not begin with a whole number: write it as in 64MiB",
            Self::Unit => "the memory limit has an unknown unit: use B, KiB, MiB or GiB",
            Self::Overflow => "the memory limit does not fit into 64 bits: write a smaller one",
            Self::Zero => "the memory limit is zero: a process needs some memory to run",
        })
    }
}

impl core::error::Error for ParseLimitError {}

#[cfg(test)]
mod tests;
