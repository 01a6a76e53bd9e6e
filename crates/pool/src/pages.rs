//! Where pages come from: the seam between the bookkeeping and the system, and a source with faults for tests.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::class::Class;
use crate::page::PAGE_BYTES_MIN;

/// Whole units of one class, in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) class: Class,
    /// From the start of the class's range; a multiple of the page.
    pub(crate) offset: u32,
    /// A multiple of the page; at most a step.
    pub(crate) bytes: u32,
}

/// What the bookkeeping asks of the system.
pub(crate) trait Pages {
    /// Opens a step: its pages may be touched from now on.
    ///
    /// # Errors
    ///
    /// The system's error number; nothing is opened then.
    fn commit(&self, step: Span) -> Result<(), i32>;

    /// Gives pages without live slots back, and names those that are gone: each of `spans` at most once, in any order.
    fn release(&self, spans: &[Span], gone: &mut dyn FnMut(Span));

    /// The unit gets its first live slot, and is resident from now on.
    fn occupied(&self, unit: Span);

    /// The unit has no live slot any more.
    fn vacated(&self, unit: Span);
}

/// Where a pool's pages come from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum PageChoice {
    /// The system.
    #[default]
    System,
    /// The system too, but some requests fail before they reach it, and every one is checked.
    Simulated(SimPages),
}

/// A page source that refuses some requests, chosen by a seed: for tests of what happens then.
///
/// The memory is real. Opening memory fails as with `ENOMEM`, giving back as if the system had refused, each with the
/// chance that was set (none at first). A pool with simulated pages panics if its bookkeeping ever releases a page that
/// is not resident or is in use. Clones share chances and counts.
///
/// ```
/// use plimsoll_pool::{Budget, Class, Kind, MemoryLimit, PageChoice, Pool, PoolConfig, Shortage, SimPages};
///
/// let pages = SimPages::new(7);
/// let config = PoolConfig::default().pages(PageChoice::Simulated(pages.clone()));
/// let pool = Pool::new(&Budget::new(MemoryLimit::mib(8)), config)?;
/// pages.refuse_commits(1000);
/// let refused = pool.try_acquire(4096, Kind::Buffers).unwrap_err();
/// assert!(matches!(refused.cause(), Shortage::System(_)));
/// pages.refuse_commits(0);
/// assert_eq!(pool.try_acquire(4096, Kind::Buffers).expect("open again").class(), Class::K4);
/// assert_eq!(pages.counts().commits_refused, 1);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SimPages(Arc<Mutex<Faults>>);

#[derive(Debug)]
struct Faults {
    random: u64,
    commit_per_mille: u32,
    release_per_mille: u32,
    counts: SimCounts,
}

/// What was asked of a [`SimPages`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimCounts {
    /// Steps opened.
    pub commits: u64,
    /// Steps that were refused.
    pub commits_refused: u64,
    /// Spans of pages given back.
    pub releases: u64,
    /// Spans of pages that were refused.
    pub releases_refused: u64,
    /// Bytes of the spans given back.
    pub released_bytes: u64,
}

impl SimPages {
    /// A source whose faults follow from `seed`; none until chances are set.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let faults = Faults { random: seed, commit_per_mille: 0, release_per_mille: 0, counts: SimCounts::default() };
        Self(Arc::new(Mutex::new(faults)))
    }

    /// From now on, `per_mille` of 1,000 requests to open memory fail.
    pub fn refuse_commits(&self, per_mille: u32) {
        self.faults().commit_per_mille = per_mille;
    }

    /// From now on, `per_mille` of 1,000 spans that are given back are refused, and so stay charged.
    pub fn refuse_releases(&self, per_mille: u32) {
        self.faults().release_per_mille = per_mille;
    }

    /// What was asked so far.
    #[must_use]
    pub fn counts(&self) -> SimCounts {
        self.faults().counts
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    /// Whether something with this chance happens.
    fn strikes(&mut self, per_mille: u32) -> bool {
        // splitmix64
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % 1000 < u64::from(per_mille)
    }
}

/// One pool's view of a [`SimPages`]: faults of all, and a second book of which of its own pages are resident and in
/// use.
///
/// It is a page source itself, one without memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    pages: SimPages,
    book: RefCell<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Bytes of each class's range that are open.
    open: [u64; Class::COUNT],
    resident: BTreeSet<(Class, u32)>,
    in_use: BTreeSet<(Class, u32)>,
}

impl Shadow {
    pub(crate) fn new(pages: SimPages) -> Self {
        Self { pages, book: RefCell::default() }
    }

    /// Whether giving this span back is to be refused; if not, it counts as gone.
    pub(crate) fn refuses_release(&self, span: Span) -> bool {
        let mut faults = self.pages.faults();
        let per_mille = faults.release_per_mille;
        if faults.strikes(per_mille) {
            faults.counts.releases_refused += 1;
            return true;
        }
        faults.counts.releases += 1;
        faults.counts.released_bytes += u64::from(span.bytes);
        let mut book = self.book.borrow_mut();
        for page in pages_of(span) {
            assert!(!book.in_use.contains(&page), "I8: a page in use is never released: {page:?}");
            assert!(book.resident.remove(&page), "only resident pages are released: {page:?}");
        }
        false
    }

    #[cfg(test)]
    pub(crate) fn resident_bytes(&self) -> u64 {
        (self.book.borrow().resident.len() * PAGE_BYTES_MIN) as u64
    }
}

impl Pages for Shadow {
    fn commit(&self, step: Span) -> Result<(), i32> {
        let mut faults = self.pages.faults();
        let per_mille = faults.commit_per_mille;
        if faults.strikes(per_mille) {
            faults.counts.commits_refused += 1;
            return Err(ENOMEM);
        }
        faults.counts.commits += 1;
        let open = &mut self.book.borrow_mut().open[step.class.index()];
        assert_eq!(*open, u64::from(step.offset), "steps are opened in order");
        *open += u64::from(step.bytes);
        Ok(())
    }

    fn release(&self, spans: &[Span], gone: &mut dyn FnMut(Span)) {
        for span in spans.iter().filter(|span| !self.refuses_release(**span)) {
            gone(*span);
        }
    }

    fn occupied(&self, unit: Span) {
        let mut book = self.book.borrow_mut();
        for page in pages_of(unit) {
            assert!(u64::from(page.1) < book.open[unit.class.index()], "only open pages are used");
            assert!(book.in_use.insert(page), "a unit is occupied once");
            book.resident.insert(page);
        }
    }

    fn vacated(&self, unit: Span) {
        let mut book = self.book.borrow_mut();
        for page in pages_of(unit) {
            assert!(book.in_use.remove(&page), "a unit is vacated once");
        }
    }
}

/// The span in pages of the smallest size: a larger one is some of them.
fn pages_of(span: Span) -> impl Iterator<Item = (Class, u32)> {
    (0..span.bytes).step_by(PAGE_BYTES_MIN).map(move |at| (span.class, span.offset + at))
}

/// The number that Linux gives it.
const ENOMEM: i32 = 12;

#[cfg(test)]
mod tests;
