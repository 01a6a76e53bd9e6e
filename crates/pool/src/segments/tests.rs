//! Properties, for slots of several classes taken, freed and released at random over a source that refuses some
//! requests, after every operation and against a naive model:
//!
//! * a slot is the last freed one at hand, else the lowest free resident one, else the lowest of the lowest unit that
//!   is not resident;
//! * what is charged is the resident units and the metadata, and within the line;
//! * a refusal at the line means that what is asked for does not fit;
//! * only units without live slots are released (the source checks it too), within the goal, and all of them for the
//!   highest goal;
//! * what is surplus after an epoch is no more than was empty all through it, and goes within its bounds;
//! * in the end only metadata is charged.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::budget::Budget;
use crate::class::Division;
use crate::limit::MemoryLimit;
use crate::pages::{Shadow, SimPages};

const CLASSES: [Class; 6] = [Class::B64, Class::B512, Class::B1024, Class::K4, Class::K20, Class::K128];

#[derive(Clone, Debug)]
enum Op {
    Take { class: usize, count: usize },
    Free { class: usize, count: usize, pick: usize },
    Release(Goal),
    Epoch,
    Surplus { bytes_max: u64, spans_max: usize },
    RefuseCommits(u32),
    RefuseReleases(u32),
}

fn op() -> impl Strategy<Value = Op> {
    let class = 0..CLASSES.len();
    let goal = prop_oneof![
        (0_u64..600_000).prop_map(Goal::AtMost),
        (0_u64..600_000).prop_map(Goal::AtLeast),
        Just(Goal::AtMost(u64::MAX))
    ];
    prop_oneof![
        5 => (class.clone(), 1_usize..90).prop_map(|(class, count)| Op::Take { class, count }),
        5 => (class, 1_usize..90, any::<usize>()).prop_map(|(class, count, pick)| Op::Free { class, count, pick }),
        2 => goal.prop_map(Op::Release),
        2 => Just(Op::Epoch),
        2 => (0_u64..600_000, 1_usize..40).prop_map(|(bytes_max, spans_max)| Op::Surplus { bytes_max, spans_max }),
        1 => prop_oneof![Just(0), Just(500)].prop_map(Op::RefuseCommits),
        1 => prop_oneof![Just(0), Just(400)].prop_map(Op::RefuseReleases),
    ]
}

/// A class as sets.
#[derive(Default)]
struct Model {
    live: Vec<u32>,
    at_hand: Vec<u32>,
    resident: BTreeSet<u32>,
    /// The fewest empty units since the epoch began.
    fewest_empty: usize,
}

impl Model {
    fn next(&self, division: Division) -> u32 {
        if let Some(slot) = self.at_hand.last() {
            return *slot;
        }
        let taken: BTreeSet<u32> = self.live.iter().copied().collect();
        let of_unit = |unit: &u32| unit * division.slots_per_unit..(unit + 1) * division.slots_per_unit;
        let free = self.resident.iter().flat_map(of_unit).find(|slot| !taken.contains(slot));
        free.unwrap_or_else(|| (0..).find(|unit| !self.resident.contains(unit)).unwrap() * division.slots_per_unit)
    }

    fn empty_units(&self, division: Division) -> BTreeSet<u32> {
        let used: BTreeSet<u32> =
            self.live.iter().chain(&self.at_hand).map(|slot| slot / division.slots_per_unit).collect();
        self.resident.difference(&used).copied().collect()
    }
}

struct Test {
    segments: Segments,
    credit: Credit,
    source: SimPages,
    pages: Shadow,
    models: [Model; CLASSES.len()],
    limit: u64,
    page_bytes: usize,
}

impl Test {
    fn take(&mut self, which: usize) -> Result<bool, TestCaseError> {
        let (class, model) = (CLASSES[which], &mut self.models[which]);
        let division = self.segments.of(class).division();
        let expected = model.next(division);
        let found = match self.segments.pop(class).or_else(|| self.segments.take_warm(class, &self.pages)) {
            Some(slot) => slot,
            None => match self.segments.take_cold(class, &self.credit, &self.pages) {
                Ok(slot) => slot,
                Err(over) if over.cause() == Shortage::Line => {
                    prop_assert!(
                        self.credit.account().charged() + over.wanted_bytes() > self.limit,
                        "refusals are exact"
                    );
                    return Ok(false);
                }
                Err(over) => {
                    prop_assert_eq!(over.cause(), Shortage::System(12));
                    return Ok(false);
                }
            },
        };
        prop_assert_eq!(found, expected, "lowest first, in {}", class);
        prop_assert!(!model.live.contains(&found), "no slot is handed out twice");
        model.at_hand.pop();
        model.live.push(found);
        model.resident.insert(found / division.slots_per_unit);
        model.fewest_empty = model.fewest_empty.min(model.empty_units(division).len());
        Ok(true)
    }

    fn free(&mut self, which: usize, pick: usize) {
        let (class, model) = (CLASSES[which], &mut self.models[which]);
        if model.live.is_empty() {
            return;
        }
        let slot = model.live.swap_remove(pick % model.live.len());
        self.segments.push(class, slot, &self.pages);
        let is_low = (slot as usize) < model.live.len() + 16;
        if is_low && model.at_hand.len() < class.shape().magazine_slots_max as usize {
            model.at_hand.push(slot);
        }
    }

    fn release(&mut self, goal: Goal, refused: bool) -> Result<(), TestCaseError> {
        let before = self.credit.account().charged();
        self.models.iter_mut().for_each(|model| model.at_hand.clear());
        let empty = |model: &Model, class: Class| {
            let division = self.segments.of(class).division();
            model.empty_units(division).len() as u64 * u64::from(division.unit_bytes)
        };
        let releasable: u64 = self.models.iter().zip(CLASSES).map(|(model, class)| empty(model, class)).sum();
        let released = self.segments.release(goal, &self.credit, &self.pages);
        prop_assert_eq!(before - released, self.credit.account().charged());
        prop_assert!(released <= releasable);
        match goal {
            Goal::AtMost(bytes) => prop_assert!(released <= bytes),
            Goal::AtLeast(bytes) if !refused => {
                prop_assert!(released >= bytes.min(releasable));
                prop_assert!(
                    released < bytes + u64::from(Division::of(Class::K20, self.page_bytes).unit_bytes).max(131_072),
                    "a unit too much at most"
                );
            }
            Goal::AtLeast(_) => {}
        }
        if goal == Goal::AtMost(u64::MAX) && !refused {
            prop_assert_eq!(released, releasable);
        }
        self.note_released();
        Ok(())
    }

    fn begin_epoch(&mut self) -> Result<(), TestCaseError> {
        self.segments.begin_epoch(&self.pages);
        for (model, class) in self.models.iter_mut().zip(CLASSES) {
            let surplus = self.segments.of(class).surplus_units() as usize;
            prop_assert!(surplus <= model.fewest_empty, "{class}: somebody has needed it");
            model.at_hand.clear();
            model.fewest_empty = model.empty_units(self.segments.of(class).division()).len();
        }
        Ok(())
    }

    fn release_surplus(&mut self, bytes_max: u64, spans_max: usize) -> Result<(), TestCaseError> {
        let before = self.credit.account().charged();
        let calls = self.source.counts();
        let released = self.segments.release_surplus(bytes_max, spans_max, &self.credit, &self.pages);
        let counts = self.source.counts();
        let spans = counts.releases + counts.releases_refused - calls.releases - calls.releases_refused;
        prop_assert!(released <= bytes_max && spans <= spans_max as u64);
        prop_assert_eq!(before - released, self.credit.account().charged());
        self.note_released();
        Ok(())
    }

    /// Which units went is the source's to say: it has checked them.
    fn note_released(&mut self) {
        for (model, class) in self.models.iter_mut().zip(CLASSES) {
            let segment = self.segments.of(class);
            let division = segment.division();
            let empty = model.empty_units(division);
            let gone = |unit: &u32| empty.contains(unit) && segment.is_cold(*unit);
            let cold: Vec<u32> = model.resident.iter().copied().filter(gone).collect();
            for unit in cold {
                model.resident.remove(&unit);
            }
            model.fewest_empty = model.fewest_empty.min(model.empty_units(division).len());
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let mut resident = 0;
        for (model, class) in self.models.iter().zip(CLASSES) {
            let count = self.segments.of(class).count();
            prop_assert_eq!(count.live as usize, model.live.len());
            prop_assert_eq!(count.resident_units as usize, model.resident.len());
            let division = self.segments.of(class).division();
            prop_assert_eq!(count.empty_units as usize, model.empty_units(division).len());
            resident += u64::from(count.resident_units) * u64::from(division.unit_bytes);
        }
        let charged = self.credit.account().charged();
        prop_assert_eq!(charged, resident + self.segments.metadata_bytes());
        prop_assert_eq!(resident, self.pages.resident_bytes());
        prop_assert_eq!(self.credit.account().used(Kind::Fixed), self.segments.metadata_bytes());
        prop_assert!(charged <= self.credit.credit() && self.credit.budget().credited() <= self.limit);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 200 }))]

    #[test]
    fn slots_are_as_in_the_model(
        limit in 200_000_u64..6_000_000,
        page_bytes in prop_oneof![2 => Just(4_096), 1 => Just(16_384), 1 => Just(65_536)],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let budget = Budget::new(MemoryLimit::bytes(limit));
        let source = SimPages::new(limit);
        let mut test = Test {
            segments: Segments::new(page_bytes),
            credit: Credit::open(&budget, 1),
            source: source.clone(),
            pages: Shadow::new(source.clone()),
            models: Default::default(),
            limit,
            page_bytes,
        };
        let mut refuses = false;
        for op in ops {
            match op {
                Op::Take { class, count } => {
                    for _ in 0..count {
                        if !test.take(class)? {
                            break;
                        }
                    }
                }
                Op::Free { class, count, pick } => (0..count).for_each(|turn| test.free(class, pick.wrapping_add(turn * 7))),
                Op::Release(goal) => test.release(goal, refuses)?,
                Op::Epoch => test.begin_epoch()?,
                Op::Surplus { bytes_max, spans_max } => test.release_surplus(bytes_max, spans_max)?,
                Op::RefuseCommits(per_mille) => source.refuse_commits(per_mille),
                Op::RefuseReleases(per_mille) => {
                    refuses = per_mille > 0;
                    source.refuse_releases(per_mille);
                }
            }
            test.check()?;
        }
        source.refuse_releases(0);
        for class in 0..CLASSES.len() {
            while !test.models[class].live.is_empty() {
                test.free(class, 0);
            }
        }
        test.release(Goal::AtMost(u64::MAX), false)?;
        test.check()?;
        prop_assert_eq!(test.credit.account().charged(), test.segments.metadata_bytes());
        prop_assert_eq!(test.pages.resident_bytes(), 0);
    }
}

#[test]
fn many_ranges_are_released_in_several_batches() {
    let budget = Budget::new(MemoryLimit::mib(64));
    let (credit, pages) = (Credit::open(&budget, 1), Shadow::new(SimPages::new(1)));
    let mut segments = Segments::new(4096);
    let slots: Vec<u32> =
        (0..2 * BATCH_SPANS as u32 + 100).map(|_| segments.take_cold(Class::K4, &credit, &pages).unwrap()).collect();
    let (even, odd): (Vec<u32>, Vec<u32>) = slots.iter().partition(|slot| *slot % 2 == 0);
    even.iter().for_each(|slot| segments.push(Class::K4, *slot, &pages));
    assert_eq!(segments.release(Goal::AtMost(u64::MAX), &credit, &pages), even.len() as u64 * 4096);
    odd.iter().for_each(|slot| segments.push(Class::K4, *slot, &pages));
    assert_eq!(segments.release(Goal::AtLeast(u64::MAX), &credit, &pages), odd.len() as u64 * 4096);
    assert_eq!(pages.resident_bytes(), 0);
}

/// A source without books: ranges may be large.
struct Plenty;

impl Pages for Plenty {
    fn commit(&self, _step: Span) -> Result<(), i32> {
        Ok(())
    }

    fn release(&self, spans: &[Span], gone: &mut dyn FnMut(Span)) {
        spans.iter().for_each(|span| gone(*span));
    }

    fn occupied(&self, _unit: Span) {}

    fn vacated(&self, _unit: Span) {}
}

/// Classes whose ranges are filled to their ends here: more steps than a word of a set has bits.
#[test]
fn the_end_of_a_range_is_an_error() {
    for class in [Class::K20, Class::K64, Class::K128] {
        let budget = Budget::new(MemoryLimit::gib(64));
        let credit = Credit::open(&budget, 1);
        let mut segments = Segments::new(4096);
        let division = segments.of(class).division();
        let all = division.steps_max * division.slots_per_step;
        assert!(division.steps_max > 64 && u64::from(all) <= crate::class::RANGE_BYTES / class.bytes() as u64);
        for slot in 0..all {
            assert_eq!(segments.take_cold(class, &credit, &Plenty), Ok(slot));
        }
        let over = segments.take_cold(class, &credit, &Plenty).unwrap_err();
        assert_eq!(over.cause(), Shortage::Addresses);
        // Alone in the step behind the first 64.
        let kept = 64 * division.slots_per_step + 3;
        (0..all).filter(|slot| *slot != kept).for_each(|slot| segments.push(class, slot, &Plenty));
        assert_eq!(segments.live(), 1);
        let free = u64::from(all - 1) * class.bytes() as u64;
        assert_eq!(segments.releasable_bytes(), free);
        assert_eq!(segments.release(Goal::AtLeast(u64::MAX), &credit, &Plenty), free);
        assert_eq!(credit.account().charged(), class.bytes() as u64 + segments.metadata_bytes());
        for slot in (0..all).filter(|slot| *slot != kept) {
            assert_eq!(segments.take_cold(class, &credit, &Plenty), Ok(slot), "the lowest that is not resident");
        }
        segments.push(class, kept, &Plenty);
        assert_eq!(segments.pop(class).or_else(|| segments.take_warm(class, &Plenty)), Some(kept));
    }
}
