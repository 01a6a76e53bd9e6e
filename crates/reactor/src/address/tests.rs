//! Addresses as text, and as the system has them.

use super::{Address, InvalidAddress, UnixAddress};
use crate::sys;

#[test]
fn text_is_read_back_as_it_was_written() {
    for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/app.sock", "unix:app.sock", "unix:@name"] {
        let address: Address = text.parse().expect(text);
        assert_eq!(address.to_string(), text);
    }
    assert_eq!(Address::Unix(UnixAddress::UNNAMED).to_string(), "unix:");
}

#[test]
fn what_is_no_address_says_why() {
    for (text, error) in [
        ("localhost:80", InvalidAddress::Text),
        ("/run/app.sock", InvalidAddress::Text),
        ("unix:", InvalidAddress::EmptyPath),
        ("unix:a\0b", InvalidAddress::NulInPath),
    ] {
        assert_eq!(text.parse::<Address>(), Err(error), "{text}");
    }
    let long = "x".repeat(108);
    let told = UnixAddress::from_path(&long).expect_err("one byte too many");
    assert_eq!(told, InvalidAddress::TooLong { bytes: 108, bytes_max: 107 });
    assert!(told.to_string().contains("shorter"));
    assert!(UnixAddress::from_path(&long[1..]).is_ok());
    assert!(UnixAddress::from_abstract_name(&long[1..]).is_ok());
    assert!(UnixAddress::from_abstract_name(&long).is_err());
}

#[test]
fn the_system_gets_and_tells_the_same_address() {
    let longest = format!("unix:{}", "x".repeat(107));
    for text in ["127.0.0.1:80", "[fe80::1%7]:80", "unix:/run/app.sock", "unix:@name", &longest] {
        let address: Address = text.parse().expect(text);
        let read = sys::with_sockaddr(address, sys::sockaddr_from_bytes);
        assert_eq!(read, Some(address), "{text}");
    }
    let unnamed = Address::Unix(UnixAddress::UNNAMED);
    assert_eq!(sys::with_sockaddr(unnamed, sys::sockaddr_from_bytes), Some(unnamed));
    // A path may come with the NUL behind it, and with what lies behind that.
    assert_eq!(UnixAddress::from_system(b"/run/a\0\0junk"), UnixAddress::from_path("/run/a").ok());
}
