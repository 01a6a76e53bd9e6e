//! Socket addresses in the system's form: `struct sockaddr_in`, `sockaddr_in6` and `sockaddr_un`, written and read by
//! field.
#![forbid(unsafe_code)]

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::{Address, UnixAddress};

/// Bytes of `struct sockaddr_in`.
const IN_BYTES: usize = size_of::<libc::sockaddr_in>();
/// Bytes of `struct sockaddr_in6`.
const IN6_BYTES: usize = size_of::<libc::sockaddr_in6>();
/// Bytes of `struct sockaddr_un`.
const UN_BYTES: usize = size_of::<libc::sockaddr_un>();

const _: () =
    assert!(IN_BYTES == 16 && IN6_BYTES == 28 && UN_BYTES == 110, "family 2, port 2, then what the family defines");

/// Runs `with` on the bytes of the address in the system's form: 16 of them for IPv4, 28 for IPv6, 110 at most for a
/// Unix socket.
pub(crate) fn with_sockaddr<R>(address: Address, with: impl FnOnce(&[u8]) -> R) -> R {
    match address {
        Address::Ip(address) => with_internet(address, with),
        Address::Unix(address) => with_unix(&address, with),
    }
}

fn with_unix<R>(address: &UnixAddress, with: impl FnOnce(&[u8]) -> R) -> R {
    let mut bytes = [0_u8; UN_BYTES];
    bytes[..2].copy_from_slice(&(libc::AF_UNIX as u16).to_ne_bytes());
    let name = address.name();
    bytes[2..2 + name.len()].copy_from_slice(name);
    // The NUL behind a path counts.
    with(&bytes[..2 + name.len() + usize::from(address.as_path().is_some())])
}

fn with_internet<R>(address: SocketAddr, with: impl FnOnce(&[u8]) -> R) -> R {
    let mut bytes = [0_u8; IN6_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            with(&bytes[..IN_BYTES])
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            with(&bytes)
        }
    }
}

/// The address that [`with_sockaddr`] wrote; `None` for another family or too few bytes.
pub(crate) fn sockaddr_from_bytes(bytes: &[u8]) -> Option<Address> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    if i32::from(family) == libc::AF_UNIX {
        return UnixAddress::from_system(&bytes[2..]).map(Address::Unix);
    }
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET if bytes.len() >= IN_BYTES => {
            let octets: [u8; 4] = *bytes[4..].first_chunk()?;
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(octets), port)).into())
        }
        libc::AF_INET6 if bytes.len() >= IN6_BYTES => {
            let flowinfo = u32::from_ne_bytes(*bytes[4..].first_chunk()?);
            let octets: [u8; 16] = *bytes[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*bytes[24..].first_chunk()?);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, flowinfo, scope)).into())
        }
        _ => None,
    }
}
