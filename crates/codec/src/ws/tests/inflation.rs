//! Compressed messages: they come back, and a bomb does not go off.

use proptest::prelude::*;

use crate::Error;
use crate::ws::{Deflater, Inflater};

const BYTES_MAX: u64 = 1 << 20;

fn deflated(deflater: &mut Deflater, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let deflated = deflater.message(message, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    assert_eq!(deflated, Ok(()));
    out
}

fn inflated(inflater: &mut Inflater, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    let mut put = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    parts.iter().try_for_each(|part| inflater.inflate(part, BYTES_MAX, &mut put))?;
    inflater.finish(BYTES_MAX, &mut put)?;
    Ok(out)
}

/// RFC 7692 7.2.3.
#[test]
fn the_examples_of_the_rfc() {
    let mut inflater = Inflater::new(false);
    let hello: &[u8] = &[0xF2, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00];
    assert_eq!(inflated(&mut inflater, &[hello]).as_deref(), Ok(&b"Hello"[..]));
    // Not compressed at all.
    let stored: &[u8] = &[0x00, 0x05, 0x00, 0xFA, 0xFF, 0x48, 0x65, 0x6C, 0x6C, 0x6F, 0x00];
    assert_eq!(inflated(&mut inflater, &[stored]).as_deref(), Ok(&b"Hello"[..]));
    // With a final block.
    let last: &[u8] = &[0xF3, 0x48, 0xCD, 0xC9, 0xC9, 0x07, 0x00, 0x00];
    assert_eq!(inflated(&mut inflater, &[last]).as_deref(), Ok(&b"Hello"[..]));
    // Two blocks.
    let two: &[u8] = &[0xF2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xCA, 0xC9, 0xC9, 0x07, 0x00];
    assert_eq!(inflated(&mut inflater, &[two]).as_deref(), Ok(&b"Hello"[..]));
    // The second message refers to the first.
    let mut inflater = Inflater::new(true);
    assert_eq!(inflated(&mut inflater, &[hello]).as_deref(), Ok(&b"Hello"[..]));
    let again: &[u8] = &[0xF2, 0x00, 0x11, 0x00, 0x00];
    assert_eq!(inflated(&mut inflater, &[again]).as_deref(), Ok(&b"Hello"[..]));
    let mut fresh = Inflater::new(false);
    assert_eq!(inflated(&mut fresh, &[again]), Err(Error::WebSocketDeflateInvalid));
}

/// 16 MiB of zeros in 1 %: stopped within a piece after the limit.
#[test]
fn a_bomb_is_stopped_while_it_runs() {
    let mut deflater = Deflater::new(15, false).expect("a window");
    let bomb = deflated(&mut deflater, &vec![0; 16 << 20]);
    assert!(bomb.len() < 256 << 10, "{} bytes", bomb.len());
    let (mut inflater, mut bytes) = (Inflater::new(false), 0);
    let result = inflater.inflate(&bomb, BYTES_MAX, |piece| {
        bytes += piece.len();
        Ok(())
    });
    assert_eq!(result, Err(Error::WebSocketMessageTooLarge));
    assert!(bytes <= 1 << 20, "{bytes}");
}

/// Four bytes for each of the window, beside what does not depend on it.
#[test]
fn a_larger_window_costs_more_of_the_heap() {
    assert_eq!([9, 10, 15].map(Deflater::heap_bytes), [162, 164, 288].map(|kib| kib << 10));
}

#[test]
fn what_is_taken_over_makes_the_next_shorter() {
    let message = b"the same words in every message, which nobody should have to send twice";
    let (mut keeps, mut forgets) = (Deflater::new(15, true).expect("ok"), Deflater::new(15, false).expect("ok"));
    let (first, second) = (deflated(&mut keeps, message), deflated(&mut keeps, message));
    assert!(second.len() < first.len() / 2);
    assert_eq!(deflated(&mut forgets, message), deflated(&mut forgets, message));
    let mut inflater = Inflater::new(true);
    assert_eq!(inflated(&mut inflater, &[&first]).as_deref(), Ok(&message[..]));
    assert_eq!(inflated(&mut inflater, &[&second]).as_deref(), Ok(&message[..]));
    assert_eq!(Deflater::new(8, true).map(drop), Err(Error::LimitInvalid));
}

proptest! {
    #[test]
    fn messages_come_back(
        messages in proptest::collection::vec(
            prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..9_000),
                proptest::collection::vec(0..3u8, 0..20_000),
            ],
            1..4,
        ),
        window_bits in 9..16u8,
        takes_over in any::<bool>(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut deflater = Deflater::new(window_bits, takes_over).expect("a window");
        let mut inflater = Inflater::new(takes_over);
        for message in messages {
            let packed = deflated(&mut deflater, &message);
            let (first, second) = packed.split_at(cut.index(packed.len() + 1));
            prop_assert_eq!(inflated(&mut inflater, &[first, second]), Ok(message));
        }
    }
}
