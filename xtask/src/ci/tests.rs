//! Which steps run, and what the summary answers.

use std::time::Duration;

use clap::ValueEnum;

use super::{Outcome, Step, chosen, summarise};
use crate::cli::{CiFlags, EXIT_FAILED, EXIT_OK};

fn flags(only: &[Step], skip: &[Step]) -> CiFlags {
    CiFlags { skip: skip.to_vec(), only: only.to_vec(), keep_going: false, list: false }
}

#[test]
fn all_steps_run_without_flags_and_keep_their_order() {
    assert_eq!(chosen(&flags(&[], &[])), Step::value_variants());
    assert_eq!(chosen(&flags(&[Step::Doc, Step::Fmt], &[])), [Step::Fmt, Step::Doc]);
    assert_eq!(chosen(&flags(&[Step::Doc, Step::Fmt], &[Step::Doc])), [Step::Fmt]);
    assert!(!chosen(&flags(&[], &[Step::Asan])).contains(&Step::Asan));
}

#[test]
fn one_failure_is_a_failure_and_a_skip_is_not() {
    let took = Duration::from_millis(10);
    let skipped = (Step::Asan, Outcome::Skipped("no nightly".to_owned()), took);
    assert_eq!(summarise(&[(Step::Fmt, Outcome::Passed, took), skipped.clone()]), EXIT_OK);
    assert_eq!(summarise(&[(Step::Fmt, Outcome::Failed("exit 1".to_owned()), took), skipped]), EXIT_FAILED);
}
