//! Properties: lines of both versions are understood, other controllers and nonsense are passed over, "no limit" is none.

use super::*;

#[test]
fn lines_of_both_versions_are_understood() {
    let two = Group { mount: "", file: "memory.max", path: "system.slice/app.service" };
    assert_eq!(parse_group("0::/system.slice/app.service"), Some(two));
    let one = Group { mount: "memory", file: "memory.limit_in_bytes", path: "docker/abc:d" };
    assert_eq!(parse_group("4:memory:/docker/abc:d"), Some(one));
    for other in ["3:cpuset:/", "1:name=systemd:/", "", "0", "7:mem:/x"] {
        assert_eq!(parse_group(other), None, "{other}");
    }
}

#[test]
fn no_limit_is_none() {
    assert_eq!(parse_limit("104857600\n"), Some(100 << 20));
    for none in ["max\n", "9223372036854771712\n", "0", "", "-1", "12a"] {
        assert_eq!(parse_limit(none), None, "{none}");
    }
}

#[test]
fn a_path_that_is_not_there_has_no_limit() {
    let group = Group { mount: "", file: "memory.max", path: "no/such/group" };
    assert_eq!(lowest(&group, Path::new("/nowhere")), None);
}
