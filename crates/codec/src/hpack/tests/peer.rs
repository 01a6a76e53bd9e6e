//! Against an independent implementation.

use proptest::prelude::*;

use super::{Field, Reader};
use crate::hpack::{Encoder, Indexing, huffman};

fn field() -> impl Strategy<Value = Field> {
    let names = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"accept".to_vec()),
        Just(b"x-a".to_vec()),
        Just(b"set-cookie".to_vec()),
        proptest::collection::vec(b'a'..=b'z', 1..40),
    ];
    let values = prop_oneof![Just(b"/".to_vec()), Just(Vec::new()), proptest::collection::vec(any::<u8>(), 0..200)];
    (names, values)
}

fn lists() -> impl Strategy<Value = Vec<Vec<Field>>> {
    proptest::collection::vec(proptest::collection::vec(field(), 1..20), 1..12)
}

proptest! {
    #[test]
    fn it_reads_what_we_write(lists in lists(), indexing in 0..3u8, table in 0..4_096u16) {
        let mut peer = fluke_hpack::Decoder::new();
        let mut storage = vec![0; 4_096];
        let mut encoder = Encoder::new(table);
        let mut reader = Reader::new(4_096);
        for list in &lists {
            let mut block = Vec::new();
            encoder.begin(&mut storage, &mut block).expect("room");
            for (number, (name, value)) in list.iter().enumerate() {
                let indexing = match (number as u8 + indexing) % 3 {
                    0 => Indexing::Incremental,
                    1 => Indexing::Without,
                    _ => Indexing::Never,
                };
                encoder.field(&mut storage, name, value, indexing, &mut block).expect("room");
            }
            prop_assert_eq!(&peer.decode(&block).expect("the peer reads it"), list);
            prop_assert_eq!(&reader.read(&block), &Ok(Some(list.clone())));
            prop_assert_eq!(reader.decoder.table_bytes(), encoder.table_bytes());
        }
    }

    #[test]
    fn we_read_what_it_writes(lists in lists()) {
        let mut peer = fluke_hpack::Encoder::new();
        let mut reader = Reader::new(4_096);
        for list in lists {
            let block = peer.encode(list.iter().map(|(name, value)| (&name[..], &value[..])));
            prop_assert_eq!(reader.read(&block), Ok(Some(list)));
        }
    }

    /// Bytes of any kind: what we accept, it accepts, with the same fields; we are the stricter ones.
    #[test]
    fn any_bytes_mean_the_same_to_both(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..4)) {
        let mut peer = fluke_hpack::Decoder::new();
        peer.set_max_allowed_table_size(4_096);
        let mut reader = Reader::new(4_096);
        for block in blocks {
            let Ok(ours) = reader.read(&block) else { break };
            let theirs = peer.decode(&block);
            // A block of nothing but size updates: harmless, but the peer does not take it.
            if ours.as_ref().is_some_and(Vec::is_empty) && theirs.is_err() {
                break;
            }
            prop_assert!(theirs.is_ok(), "we read {ours:?}, the peer says {theirs:?}");
            prop_assert_eq!(ours, theirs.ok());
        }
    }

    #[test]
    fn huffman_strings_come_back(text in proptest::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        let mut encoded: Vec<u8> = huffman::encode(&text).collect();
        prop_assert_eq!(encoded.len(), huffman::encoded_len(&text));
        let mut out = vec![0; text.len()];
        prop_assert_eq!(huffman::decode(&encoded, &mut out), Ok(text.len()));
        prop_assert_eq!(&out, &text);
        // Cut or changed, it may be another text, but never more than the room.
        if !encoded.is_empty() {
            let at = cut.index(encoded.len());
            encoded[at] ^= 0x55;
            let _changed = huffman::decode(&encoded, &mut out);
            let _cut = huffman::decode(&encoded[..at], &mut out);
        }
    }
}

proptest! {
    #[test]
    fn the_fuzz_target_holds(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzz::hpack(&data);
    }
}
