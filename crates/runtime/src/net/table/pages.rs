//! Pages of a table that no connection uses: kept for the next ones until the worker wants them back.
#![forbid(unsafe_code)]

use super::Table;

/// Pages that a table gives back at a time.
const RECALLED_PAGES_MAX: u32 = 2_048;

impl<C: Default> Table<C> {
    /// Pages that no connection uses, but for one while connections may come: an armed accept has its place.
    pub(super) fn note_spare_pages(&self) {
        self.events.spare_pages.set(self.entries.empty_chunks().saturating_sub(u32::from(self.is_accepting())));
    }

    pub(super) fn release_spare_pages(&mut self) {
        for _ in 0..self.events.spare_pages.get().min(RECALLED_PAGES_MAX) {
            self.entries.release_empty();
        }
        self.note_spare_pages();
    }

    /// Gives back the pages of the table that no connection uses.
    pub fn release_pages(&mut self) {
        while self.entries.release_empty().is_some() {}
        self.note_spare_pages();
    }
}
