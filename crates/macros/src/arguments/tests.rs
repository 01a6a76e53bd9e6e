//! Arguments that mean something are taken; the others are errors that say what to write.

use proc_macro2::TokenStream;

use super::{MainArguments, TestArguments};

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("tokens")
}

fn main_error(text: &str) -> String {
    MainArguments::parse(tokens(text)).expect_err(text).to_string()
}

fn test_error(text: &str) -> String {
    TestArguments::parse(tokens(text)).expect_err(text).to_string()
}

#[test]
fn all_arguments_are_optional() {
    let main = MainArguments::parse(TokenStream::new()).expect("nothing");
    assert!(main.memory.is_none() && main.workers.is_none() && main.driver.is_none());
    let main = MainArguments::parse(tokens("memory = \"64MiB\", workers = 1_024, driver = \"uring\",")).expect("all");
    assert_eq!(main.memory.as_deref(), Some("64MiB"));
    assert_eq!(main.workers, Some(1024));
    assert_eq!(main.driver.as_deref(), Some("uring"));
}

#[test]
fn a_test_has_drivers_and_a_seed() {
    let test = TestArguments::parse(tokens("drivers = \"mio, sim\", seed = 0xffff_ffff_ffff_ffff")).expect("both");
    assert_eq!(test.drivers.as_deref(), Some("mio,sim"));
    assert_eq!(test.seed, Some(u64::MAX));
}

#[test]
fn unknown_keys_name_the_known_ones() {
    assert!(main_error("memroy = \"64MiB\"").contains("memory, workers and driver"));
    assert!(main_error("seed = 1").contains("no such argument"));
    assert!(main_error("plimsoll::memory = \"64MiB\"").contains("no such argument"));
    assert!(test_error("driver = \"mio\"").contains("memory, workers, drivers, seed, faults and worlds"));
}

#[test]
fn a_key_is_given_once() {
    assert!(main_error("workers = 1, workers = 2").contains("`workers` is given twice"));
}

#[test]
fn what_is_no_pair_is_refused() {
    assert!(MainArguments::parse(tokens("\"64MiB\"")).is_err());
    assert!(MainArguments::parse(tokens("memory")).is_err());
    assert!(MainArguments::parse(tokens("workers(2)")).is_err());
}

#[test]
fn memory_is_a_size() {
    assert!(main_error("memory = \"64MB\"").contains("KiB, MiB or GiB"));
    assert!(main_error("memory = \"\"").contains("empty"));
    assert!(main_error("memory = \"0\"").contains("0 bytes"));
    assert!(main_error("memory = 64").contains("in quotes"));
    assert!(test_error("memory = \"99999999999999999999\"").contains("64 bits"));
}

#[test]
fn workers_are_a_number_in_range() {
    for wrong in ["0", "1025", "-1", "99999999999999999999"] {
        assert!(main_error(&format!("workers = {wrong}")).contains("1 to 1024"), "{wrong}");
    }
    assert!(main_error("workers = \"2\"").contains("without quotes"));
    assert!(main_error("workers = one").contains("without quotes"));
}

#[test]
fn drivers_exist_and_are_there_once() {
    assert!(main_error("driver = \"epoll\"").contains("auto, uring, mio"));
    assert!(main_error("driver = \"sim\"").contains("no driver `sim`"));
    assert!(test_error("drivers = \"mio,auto\"").contains("no driver `auto`"));
    assert!(test_error("drivers = \"\"").contains("no driver ``"));
    assert!(test_error("drivers = \"mio,mio\"").contains("twice"));
}

#[test]
fn a_seed_has_64_bits() {
    assert!(TestArguments::parse(tokens("seed = 18446744073709551616")).is_err());
    assert!(test_error("seed = \"7\"").contains("without quotes"));
}

#[test]
fn every_wrong_argument_is_reported() {
    let error = MainArguments::parse(tokens("workers = 0, driver = \"x\", y = 1")).expect_err("three are wrong");
    assert_eq!(error.into_iter().count(), 3);
}

#[test]
fn faults_are_of_the_simulation() {
    let test = TestArguments::parse(tokens("faults = \"wild\", worlds = 20, seed = 3")).expect("all");
    assert_eq!((test.faults.as_deref(), test.worlds, test.seed), (Some("wild"), Some(20), Some(3)));
    assert_eq!(test.drivers.as_deref(), Some("sim"));
    assert!(test_error("faults = \"many\"").contains("clean, mild, wild"));
    assert!(test_error("faults = \"wild\", drivers = \"mio,sim\"").contains("in the simulation alone"));
    assert!(TestArguments::parse(tokens("faults = \"wild\", drivers = \"sim\"")).is_ok());
    assert!(test_error("worlds = 0").contains("must be a world"));
}
