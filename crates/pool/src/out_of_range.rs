//! What is wrong with a setting.
#![forbid(unsafe_code)]

use core::fmt;

/// A setting whose value is out of its range.
///
/// ```
/// use plimsoll_pool::DecayConfig;
///
/// let wrong = DecayConfig { tick_ranges_max: 0, ..DecayConfig::default() }.check().unwrap_err();
/// assert_eq!(wrong.setting(), "DecayConfig::tick_ranges_max");
/// assert_eq!(wrong.to_string(), "DecayConfig::tick_ranges_max must be between 1 and 512 ranges");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    setting: &'static str,
    allowed: &'static str,
}

impl OutOfRange {
    /// A field or a call of a builder by its name, and what it may be: the words that follow "must be".
    #[must_use]
    pub const fn new(setting: &'static str, allowed: &'static str) -> Self {
        Self { setting, allowed }
    }

    /// The name of the setting.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }

    /// What it may be, with its unit.
    #[must_use]
    pub const fn allowed(&self) -> &'static str {
        self.allowed
    }
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.setting, self.allowed)
    }
}

impl core::error::Error for OutOfRange {}
