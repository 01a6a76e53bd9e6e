//! Programs that are wrong, each with what the compiler says: it names the fix.
//!
//! The texts are those of the compiler that `rust-toolchain.toml` names. To write them anew: `TRYBUILD=overwrite cargo
//! test -p plimsoll --test wrong`.
#![forbid(unsafe_code)]

#[test]
fn what_is_wrong_is_said_with_its_fix() {
    trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
}
