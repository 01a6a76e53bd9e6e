//! Properties: a page is the system's, or larger where a build says so; what cannot be a page is known.

use super::*;

#[test]
fn a_page_is_whole_pages_of_the_system() {
    let system = crate::sys::page_bytes();
    assert!(page_bytes().is_multiple_of(system) && is_page(page_bytes()), "{} of {system}", page_bytes());
    if !cfg!(any(plimsoll_page_bytes = "16384", plimsoll_page_bytes = "65536")) {
        assert_eq!(page_bytes(), system);
    }
    assert_eq!(page_bytes(), page_bytes(), "asked once");
}

#[test]
fn pages_have_powers_of_two() {
    let pages: Vec<usize> = (0..1 << 20).filter(|bytes| is_page(*bytes)).collect();
    assert_eq!(pages, [4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144]);
}
