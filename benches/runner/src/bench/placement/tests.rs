//! Servers and wrk are kept apart as far as the machine allows.

use std::path::Path;

use super::Placement;

#[test]
fn cores_differ_and_are_no_siblings_if_that_can_be() {
    let alone = |core| vec![core];
    assert_eq!(Placement::choose(&[0, 1], alone), Placement::Pinned { server: 1, load: 0 });
    assert_eq!(Placement::choose(&[4], alone), Placement::Unpinned);
    let pairs = |core: usize| vec![core & !1, core | 1];
    assert_eq!(Placement::choose(&[0, 1, 2, 3], pairs), Placement::Pinned { server: 3, load: 1 });
    assert_eq!(Placement::choose(&[2, 3], pairs), Placement::Pinned { server: 3, load: 2 });
}

#[test]
fn each_program_gets_its_own_core() {
    let words = |command: std::process::Command| {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    };
    let pinned = Placement::Pinned { server: 3, load: 1 };
    assert_eq!(words(pinned.server_command(Path::new("arena"))), "--pdeathsig KILL taskset -c 3 arena");
    assert_eq!(words(pinned.load_command(Path::new("wrk"))), "--pdeathsig KILL taskset -c 1 wrk");
    assert_eq!(words(Placement::Unpinned.load_command(Path::new("wrk"))), "--pdeathsig KILL wrk");
}
