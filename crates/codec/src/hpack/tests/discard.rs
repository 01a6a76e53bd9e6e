//! A block that is discarded in parts does to the table what it does as a whole, however it is cut, and needs no more
//! than so many bytes at a time.

use proptest::prelude::*;

use super::hex;
use crate::Error;
use crate::hpack::discard::{Discard, PART_BYTES_MAX};
use crate::hpack::{Decoder, FieldBuf, TABLE_BYTES, huffman};

/// A field as a literal: how it is indexed, its name and its value.
fn literal(first: u8, name: &[u8], value: &[u8], is_huffman: bool) -> Vec<u8> {
    let mut block = vec![first];
    for text in [name, value] {
        let coded: Vec<u8> = if is_huffman { huffman::encode(text).collect() } else { text.to_vec() };
        let flag = if is_huffman { 0x80 } else { 0 };
        let mut rest = coded.len();
        if rest < 127 {
            block.push(flag | rest as u8);
        } else {
            block.push(flag | 127);
            rest -= 127;
            while rest >= 128 {
                block.push(rest as u8 | 128);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend(coded);
    }
    block
}

struct Discarding {
    decoder: Decoder,
    storage: Vec<u8>,
}

impl Discarding {
    fn new() -> Discarding {
        Discarding { decoder: Decoder::new(TABLE_BYTES as u16), storage: vec![0; TABLE_BYTES] }
    }

    /// At most so many bytes are shown at a time as `cuts` say, and no more than are promised to be enough.
    fn discard(&mut self, block: &[u8], cuts: &[usize]) -> Result<(), Error> {
        let (mut discard, mut scratch) = (Discard::new(), vec![0; TABLE_BYTES]);
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        let mut shown = 0;
        while at < block.len() {
            let end = block.len().min(at + shown);
            let done = self.decoder.discard(&mut discard, &mut self.storage, &mut scratch, &block[at..end])?;
            at += done.consumed;
            if done.consumed == 0 {
                if end == block.len() {
                    return Err(Error::HpackTruncated);
                }
                assert!(shown < PART_BYTES_MAX, "so many are always enough");
            }
            shown =
                if done.consumed == 0 { shown + cuts.next().expect("a cycle") } else { *cuts.next().expect("a cycle") };
            shown = shown.min(PART_BYTES_MAX);
        }
        if discard.is_between() { Ok(()) } else { Err(Error::HpackTruncated) }
    }

    fn decode(&mut self, block: &[u8]) -> Result<(), Error> {
        let mut bytes = vec![0; 60_000];
        let mut lost = FieldBuf::new(&mut bytes, &mut [], 60_000).lost();
        self.decoder.decode(&mut self.storage, block, &mut lost)
    }

    /// The table's entries.
    fn table(mut self) -> Vec<u8> {
        let mut packed = vec![0; self.decoder.packed_bytes()];
        self.decoder.pack(&mut self.storage, &mut packed);
        packed
    }
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    let short = proptest::collection::vec(b'a'..=b'z', 1..60);
    let long = (any::<u8>(), prop_oneof![3_900..4_200_usize, 12_000..16_000_usize, 20_000..50_000_usize])
        .prop_map(|(byte, len)| vec![byte; len]);
    let text = prop_oneof![6 => short, 1 => long];
    let first = prop_oneof![Just(0x40), Just(0), Just(0x10)];
    let literal = (first, text.clone(), text, any::<bool>())
        .prop_map(|(first, name, value, is_huffman)| literal(first, &name, &value, is_huffman));
    // References into both tables, and literals with a name from there.
    let indexed = (0x81..=0xc6_u8).prop_map(|byte| vec![byte]);
    let named =
        (0x41..=0x7e_u8, 0..100_u8).prop_map(|(first, len)| [vec![first, len], vec![b'v'; len.into()]].concat());
    let resized = (0x20..=0x3e_u8).prop_map(|byte| vec![byte]);
    prop_oneof![12 => literal, 4 => indexed, 4 => named, 1 => resized]
}

proptest! {
    #[test]
    fn parts_do_what_the_whole_does(
        fields in proptest::collection::vec(field(), 1..20),
        cuts in proptest::collection::vec(prop_oneof![1..40_usize, 1..20_000_usize], 1..30),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut block = fields.concat();
        if let Some(cut) = cut {
            block.truncate(cut.index(block.len()));
        }
        let (mut parts, mut whole) = (Discarding::new(), Discarding::new());
        let done = parts.discard(&block, &cuts);
        // Of two mistakes either may be found first.
        prop_assert_eq!(done.is_ok(), whole.decode(&block).is_ok());
        if done.is_ok() {
            prop_assert_eq!(parts.decoder.state().1, whole.decoder.state().1);
            prop_assert_eq!(parts.table(), whole.table());
        }
    }
}

#[test]
fn what_is_not_well_formed_is_refused_in_parts_too() {
    let long = literal(0, b"a", &[b'v'; 40_000], false);
    for (block, error) in [
        ("80", Error::HpackIndexInvalid),
        ("82 20", Error::HpackSizeUpdateInvalid),
        ("20 20 20", Error::HpackSizeUpdateInvalid),
        ("40 01 61 82 1f ff", Error::HpackHuffmanInvalid),
        ("ff 80 80 80 80 00", Error::HpackIntegerOverflow),
        ("0f 2f 7f ff ff 7f", Error::HpackIndexInvalid),
        ("40 01", Error::HpackTruncated),
    ] {
        for cuts in [&[1][..], &[1_000]] {
            assert_eq!(Discarding::new().discard(&hex(block), cuts), Err(error), "{block}");
        }
    }
    // No size update comes behind a field, whatever became of it.
    assert_eq!(
        Discarding::new().discard(&[&long[..], &[0x20]].concat(), &[10_000]),
        Err(Error::HpackSizeUpdateInvalid)
    );
    for end in [1, 5, 100, 39_999, long.len() - 1] {
        assert_eq!(Discarding::new().discard(&long[..end], &[7_000]), Err(Error::HpackTruncated), "{end}");
    }
    assert_eq!(Discarding::new().discard(&long, &[7_000]), Ok(()));
}

/// What a field is decoded to beyond its own bytes is its own, however many come at once.
#[test]
fn many_small_fields_are_no_excess() {
    let (mut discarding, mut discard) = (Discarding::new(), Discard::new());
    let (block, mut scratch) = (literal(0x40, b"a", b"b", false).repeat(200), vec![0; TABLE_BYTES]);
    let Discarding { decoder, storage } = &mut discarding;
    let done = decoder.discard(&mut discard, storage, &mut scratch, &block).expect("well formed");
    assert_eq!((done.consumed, done.excess), (block.len(), 0));
}

/// The shortest codes make eight bits of five, which is what compression is for.
#[test]
fn what_a_code_makes_of_its_bytes_is_no_excess() {
    let mut discarding = Discarding::new();
    let (block, mut scratch) = (literal(0x40, b"a", &[b'0'; 4_000], true), vec![0; TABLE_BYTES]);
    assert!(block.len() < 2_520);
    let Discarding { decoder, storage } = &mut discarding;
    let done = decoder.discard(&mut Discard::new(), storage, &mut scratch, &block).expect("well formed");
    assert_eq!((done.consumed, done.excess), (block.len(), 0));
}

/// The longest entry that the table can keep, in the longest codes, has to be there as a whole: it is.
#[test]
fn the_longest_entry_is_kept() {
    let mut discarding = Discarding::new();
    // Code 22 has thirty bits.
    let entry = literal(0x40, &[22; 2_000], &[22; 2_064], true);
    assert!(entry.len() > 15_000 && entry.len() <= PART_BYTES_MAX);
    assert_eq!(discarding.discard(&entry, &[1_000]), Ok(()));
    assert_eq!((discarding.decoder.table_len(), discarding.decoder.table_bytes()), (1, 4_096));
}

/// References to long names make much work of few bytes: that is told in sums, so that who shows the rest again does
/// not do so for each field.
#[test]
fn what_is_in_excess_is_told_in_sums() {
    let mut discarding = Discarding::new();
    discarding.discard(&literal(0x40, &[b'n'; 1_000], b"v", false), &[2_000]).expect("it fits the table");
    let (mut discard, mut scratch) = (Discard::new(), vec![0; TABLE_BYTES]);
    let block = [0x7e, 1, b'w'].repeat(2_000);
    let (mut at, mut sum, mut calls) = (0, 0, 0);
    while at < block.len() {
        let done = discarding.decoder.discard(&mut discard, &mut discarding.storage, &mut scratch, &block[at..]);
        let done = done.expect("each is a field");
        assert!(done.excess < 70_000, "no more is done before it is told");
        (at, sum, calls) = (at + done.consumed, sum + done.excess, calls + 1);
    }
    assert_eq!(sum, 2_000 * (1_001 - 2 * 3 - 128));
    assert_eq!(calls, sum.div_ceil(64 * 1_024));
}
