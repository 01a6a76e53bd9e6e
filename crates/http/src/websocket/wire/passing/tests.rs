//! What is a ping or a pong, and what is not.
#![forbid(unsafe_code)]

use super::*;

#[test]
fn only_whole_pings_and_pongs_are_found() {
    let ping = [&[PING_BYTE, 0x83, 1, 2, 3, 4][..], b"abc"].concat();
    let long = [&[PONG_BYTE, 0xFD, 1, 2, 3, 4][..], &[b'l'; 125]].concat();
    let both = [&ping[..], &long, &[PONG_BYTE, 0x80, 1, 2, 3, 4]].concat();
    let found: Vec<_> = frames(&both).map(|frame| frame.expect("whole").len()).collect();
    assert_eq!(found, [9, 131, 6]);
    assert_eq!(frames(&[]).count(), 0);
    for end in 0..both.len() {
        let is_whole = [0, 9, 140].contains(&end);
        assert_eq!(frames(&both[..end]).all(|frame| frame.is_some()), is_whole, "{end} bytes");
    }
    // A close, a text, a ping in parts, one that is too long, one that is not masked.
    for other in [[0x88, 0x80], [0x81, 0x80], [0x09, 0x80], [PING_BYTE, 0xFE], [PING_BYTE, 3]] {
        let bytes = [&ping[..], &other, &[0; 200]].concat();
        assert_eq!(frames(&bytes).map(|frame| frame.is_some()).collect::<Vec<_>>(), [true, false], "{other:x?}");
    }
}
