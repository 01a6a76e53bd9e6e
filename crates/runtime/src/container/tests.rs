//! Limits of made-up file systems.

use std::path::PathBuf;

use super::*;

/// A directory that plays the root of a file system, and goes with the test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str, groups: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("plimsoll-container-{}-{name}", std::process::id()));
        let root = Self(root);
        root.write("proc/self/cgroup", groups);
        files.iter().for_each(|(path, text)| root.write(path, text));
        root
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().expect("it has a parent")).expect("a directory");
        fs::write(file, text).expect("a file");
    }

    fn limit(&self) -> Option<u64> {
        ContainerLimit::under(&self.0).map(|container| container.bytes)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn version_2_has_the_lowest_limit_of_the_group_and_those_above() {
    let root = Root::new(
        "v2",
        "0::/kubepods/pod1/app\n",
        &[
            ("sys/fs/cgroup/kubepods/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.max", "134217728\n"),
            ("sys/fs/cgroup/kubepods/pod1/app/memory.max", "max\n"),
        ],
    );
    assert_eq!(root.limit(), Some(128 << 20));
    root.write("sys/fs/cgroup/kubepods/pod1/app/memory.max", "67108864\n");
    assert_eq!(root.limit(), Some(64 << 20));
}

#[test]
fn a_container_with_a_namespace_of_its_own_sees_its_group_as_the_root() {
    let root = Root::new("v2-namespace", "0::/\n", &[("sys/fs/cgroup/memory.max", "33554432\n")]);
    assert_eq!(root.limit(), Some(32 << 20));
}

#[test]
fn version_1_has_a_hierarchy_for_memory() {
    let groups = "12:pids:/docker/abc\n5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n";
    let root = Root::new(
        "v1",
        groups,
        &[
            ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "50331648\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/pids/docker/abc/memory.limit_in_bytes", "1\n"),
        ],
    );
    assert_eq!(root.limit(), Some(48 << 20));
}

#[test]
fn version_1_in_a_container_that_does_not_see_the_path_of_its_host() {
    let root =
        Root::new("v1-host", "4:memory:/docker/abc\n", &[("sys/fs/cgroup/memory/memory.limit_in_bytes", "25165824\n")]);
    assert_eq!(root.limit(), Some(24 << 20));
}

#[test]
fn no_limit_is_none() {
    for (name, groups, files) in [
        ("max", "0::/a\n", &[("sys/fs/cgroup/a/memory.max", "max\n")][..]),
        ("v1-none", "4:memory:/\n", &[("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")]),
        ("nothing", "", &[]),
        ("nonsense", "what\n:\n::\n0::/../..\n", &[("sys/fs/cgroup/memory.max", "lots\n")]),
    ] {
        assert_eq!(Root::new(name, groups, files).limit(), None, "{name}");
    }
    assert_eq!(ContainerLimit::under(Path::new("/no/such/directory")), None);
}

#[test]
fn line_and_kernel_are_parts_of_the_limit() {
    for bytes in [1, 99, 100, 12_345_678_901, u64::MAX] {
        let container = ContainerLimit { bytes };
        let line = container.line_bytes_max();
        assert!(line <= bytes && container.kernel_bytes_max(line) <= bytes - line);
    }
    assert_eq!(ContainerLimit { bytes: 1_000 }.kernel_bytes_max(900), 0);
}
