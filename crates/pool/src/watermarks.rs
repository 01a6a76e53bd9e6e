//! How full the process is: four levels with marks to go up and to come down.
//!
//! ```text
//!            75 %              90 %
//!   Calm ---------> Yellow ---------> Orange          from any of these, while somebody waits: Red
//!        <---------        <---------                 when nobody waits any more: back to what the marks say
//!            60 %              80 %
//! ```
#![forbid(unsafe_code)]

use core::fmt;

/// How full the process is. The order is that of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Nothing is done.
    #[default]
    Calm = 0,
    /// Growth stops, free pages go back sooner, idle timeouts are a quarter, windows stop growing.
    Yellow = 1,
    /// Accepting pauses, answers close their connections, and who holds most gives way.
    Orange = 2,
    /// Somebody waits: only what was reserved is given.
    Red = 3,
}

impl Level {
    /// Every level, from calm to red.
    pub const ALL: [Level; 4] = [Self::Calm, Self::Yellow, Self::Orange, Self::Red];

    /// One lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Yellow => "yellow",
            Self::Orange => "orange",
            Self::Red => "red",
        }
    }

    pub(crate) fn from_number(number: u64) -> Self {
        Self::ALL[(number as usize).min(3)]
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// At which parts of the line, in percent, the level changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    yellow_on: u8,
    yellow_off: u8,
    orange_on: u8,
    orange_off: u8,
}

impl Default for Marks {
    /// Yellow on at 75 and off at 60 percent, orange on at 90 and off at 80.
    fn default() -> Self {
        Self { yellow_on: 75, yellow_off: 60, orange_on: 90, orange_off: 80 }
    }
}

impl Marks {
    /// Other marks, in percent.
    ///
    /// # Panics
    ///
    /// Unless each is at most 100, off is below on, and orange's are not below yellow's.
    #[must_use]
    pub const fn new(yellow_on: u8, yellow_off: u8, orange_on: u8, orange_off: u8) -> Self {
        assert!(yellow_off < yellow_on && orange_off < orange_on && orange_on <= 100, "off is below on, at most 100 %");
        assert!(yellow_on <= orange_on && yellow_off <= orange_off, "orange is above yellow");
        Self { yellow_on, yellow_off, orange_on, orange_off }
    }

    /// Below this part of the line, whatever was before, the level is calm.
    pub(crate) fn calm_below_percent(self) -> u8 {
        self.yellow_off
    }
}

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The level before.
    pub from: Level,
    /// The level now.
    pub to: Level,
    /// Bytes that were in use: charged, without free pages, with the counted heap.
    pub in_use_bytes: u64,
    /// How many waited.
    pub waiting: u64,
}

/// The state machine. It is told figures and says when the level changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watermarks {
    marks: Marks,
    limit_bytes: u64,
    /// What the marks say; never red.
    marked: Level,
    level: Level,
}

impl Watermarks {
    pub(crate) fn new(marks: Marks, limit_bytes: u64) -> Self {
        Self { marks, limit_bytes, marked: Level::Calm, level: Level::Calm }
    }

    /// Has the marks mean parts of another line.
    pub(crate) fn set_limit(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
    }

    /// Takes figures in.
    pub(crate) fn observe(&mut self, in_use_bytes: u64, waiting: u64) -> Option<Transition> {
        let is_at = |percent: u8| u128::from(in_use_bytes) * 100 >= u128::from(self.limit_bytes) * u128::from(percent);
        let Marks { yellow_on, yellow_off, orange_on, orange_off } = self.marks;
        self.marked = match self.marked {
            _ if is_at(orange_on) => Level::Orange,
            Level::Orange | Level::Red if is_at(orange_off) => Level::Orange,
            Level::Calm if is_at(yellow_on) => Level::Yellow,
            Level::Yellow | Level::Orange | Level::Red if is_at(yellow_off) => Level::Yellow,
            _ => Level::Calm,
        };
        debug_assert!(self.marked < Level::Red);
        let to = if waiting > 0 { Level::Red } else { self.marked };
        let from = core::mem::replace(&mut self.level, to);
        (from != to).then_some(Transition { from, to, in_use_bytes, waiting })
    }
}

#[cfg(test)]
mod tests;
