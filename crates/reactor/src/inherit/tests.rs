//! What the environment may say.

use std::env::VarError;

use super::{InheritError, named};

fn read(variables: &[(&'static str, &str)]) -> Result<Vec<(i32, String)>, InheritError> {
    let find = |name: &'static str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
    };
    named(find, 42)
}

fn list(expected: &[(i32, &str)]) -> Result<Vec<(i32, String)>, InheritError> {
    Ok(expected.iter().map(|&(number, name)| (number, name.to_owned())).collect())
}

#[test]
fn both_ways_to_name_them_are_read() {
    assert_eq!(read(&[]), list(&[]));
    assert_eq!(read(&[("PLIMSOLL_LISTENERS", "7:http,9:")]), list(&[(7, "http"), (9, "")]));
    let systemd = [("LISTEN_FDS", "2"), ("LISTEN_PID", "42"), ("LISTEN_FDNAMES", "http")];
    assert_eq!(read(&systemd), list(&[(3, "http"), (4, "")]));
    assert_eq!(read(&[("LISTEN_FDS", "1"), ("LISTEN_PID", "41")]), list(&[]), "they are another process's");
}

#[test]
fn what_is_not_so_names_the_variable() {
    for (name, value) in [
        ("PLIMSOLL_LISTENERS", "7"),
        ("PLIMSOLL_LISTENERS", "1:standard output"),
        ("PLIMSOLL_LISTENERS", "x:http"),
        ("PLIMSOLL_LISTENERS", "7:http,7:again"),
        ("PLIMSOLL_LISTENERS", ""),
    ] {
        let told = read(&[(name, value)]).expect_err(value);
        assert_eq!(told, InheritError::Variable { name, value: value.to_owned() });
        assert!(told.to_string().contains("7:http,8:admin"), "{told}");
    }
    let told = read(&[("LISTEN_FDS", "many"), ("LISTEN_PID", "42")]).expect_err("no number");
    assert!(told.to_string().contains("LISTEN_FDS"), "{told}");
    assert!(read(&[("LISTEN_FDS", "1")]).expect_err("without its process").to_string().contains("LISTEN_PID"));
}
