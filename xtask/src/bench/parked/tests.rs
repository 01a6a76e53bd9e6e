//! How many connections there are, and where they come from.

use std::net::Ipv4Addr;

use super::{CLIENTS, CONNECTIONS, OPEN_FILES, connections, from};

#[test]
fn the_limit_of_open_files_bounds_the_connections() {
    assert_eq!(connections(OPEN_FILES), CONNECTIONS);
    assert_eq!(connections(u64::MAX), CONNECTIONS);
    assert_eq!(connections(1024), 512);
    assert_eq!(connections(100), 0);
}

#[test]
fn clients_have_twenty_addresses_in_turns() {
    assert_eq!(from(0), Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(from(CLIENTS - 1), Ipv4Addr::new(127, 0, 0, 21));
    assert_eq!(from(CLIENTS), from(0));
}
