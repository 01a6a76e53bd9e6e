//! Errors, limits and size updates.

use http::StatusCode;

use super::{Reader, hex};
use crate::Error;
use crate::hpack::huffman::{self, Fault};
use crate::hpack::mark::Mark;
use crate::hpack::table::Table;
use crate::hpack::{Encoder, Indexing};

#[test]
fn what_is_not_well_formed_is_refused() {
    for (block, error) in [
        ("80", Error::HpackIndexInvalid),
        ("be", Error::HpackIndexInvalid),
        ("7f ff ff ff ff 0f", Error::HpackIntegerOverflow),
        ("ff 80 80 80 80 00", Error::HpackIntegerOverflow),
        ("ff", Error::HpackTruncated),
        ("ff 80", Error::HpackTruncated),
        ("40", Error::HpackTruncated),
        ("40 01", Error::HpackTruncated),
        ("40 01 61", Error::HpackTruncated),
        ("40 01 61 02 62", Error::HpackTruncated),
        ("0f 2f 01 61", Error::HpackIndexInvalid),
        // Padding of eight bits, of zeros, and the end-of-string symbol.
        ("40 01 61 81 ff", Error::HpackHuffmanInvalid),
        ("40 01 61 82 1f ff", Error::HpackHuffmanInvalid),
        ("40 01 61 81 18", Error::HpackHuffmanInvalid),
        ("40 01 61 84 ff ff ff ff", Error::HpackHuffmanInvalid),
        ("40 01 61 84 ff ff ff fc", Error::HpackHuffmanInvalid),
        // A size update that is too large, behind a field, or the third one.
        ("3f e2 1f", Error::HpackSizeUpdateInvalid),
        ("82 20", Error::HpackSizeUpdateInvalid),
        ("20 20 20", Error::HpackSizeUpdateInvalid),
    ] {
        assert_eq!(Reader::new(4_096).read(&hex(block)), Err(error), "{block}");
    }
    assert_eq!(
        Reader::new(4_096).read(&hex("20 3f e1 1f 82")).map(|fields| fields.map(|fields| fields.len())),
        Ok(Some(1))
    );
}

#[test]
fn a_size_update_evicts() {
    let mut reader = Reader::new(4_096);
    reader.read(&hex("40 01 61 01 62 40 01 63 01 64")).expect("valid");
    assert_eq!((reader.decoder.table_len(), reader.decoder.table_bytes()), (2, 68));
    // 67 bytes: one entry has to go, the older one.
    let fields = reader.read(&hex("3f 24 be")).expect("valid").expect("within the limits");
    assert_eq!(fields, [(b"c".to_vec(), b"d".to_vec())]);
    assert_eq!(reader.read(&hex("bf")), Err(Error::HpackIndexInvalid));
}

/// CVE-2016-6581: one large entry, then references to it for the price of a byte each.
#[test]
fn a_bomb_costs_its_own_bytes() {
    let mut reader = Reader::new(4_096);
    let mut block = hex("40 01 61 7f a1 1e");
    block.extend([b'x'; 4_000]);
    assert!(reader.read(&block).expect("valid").is_some());
    assert_eq!(reader.read(&[0xbe; 16_000]), Ok(None));
    assert_eq!(reader.decoder.table_len(), 1);
    // The list after it is read as ever.
    assert!(reader.read(&[0x82]).expect("valid").is_some());
}

#[test]
fn lists_over_the_limits_are_lost_but_the_table_is_true() {
    // Four fields inserted, of 34 bytes each: too many, or too large.
    let block = hex("40 01 61 01 62 40 01 63 01 64 40 01 65 01 66 40 01 67 01 68");
    for (list_bytes, fields, is_taken) in [(136, 4, true), (135, 4, false), (136, 3, false), (0, 4, false)] {
        let mut reader = Reader::new(4_096);
        let taken = reader.read_limited(&block, list_bytes, fields).expect("valid");
        assert_eq!(taken.is_some(), is_taken, "{list_bytes} bytes, {fields} fields");
        let newest_first = reader.read(&hex("be bf c0 c1")).expect("valid").expect("within the limits");
        let names: Vec<u8> = newest_first.iter().map(|(name, _)| name[0]).collect();
        assert_eq!(names, b"geca");
    }
}

#[test]
fn an_entry_that_is_larger_than_the_table_empties_it() {
    let mut reader = Reader::new(64);
    reader.read(&hex("40 01 61 01 62")).expect("valid");
    let mut block = hex("40 01 61 20");
    block.extend([b'y'; 32]);
    let fields = reader.read(&block).expect("valid").expect("within the limits");
    assert_eq!(fields[0].1, [b'y'; 32]);
    assert_eq!(reader.decoder.table_len(), 0);
}

/// A request is known again by its block and by the state of the table, so no two tables have the same.
#[test]
fn a_table_that_was_emptied_is_another_one() {
    let mut reader = Reader::new(64);
    reader.read(&hex("40 01 61 01 62")).expect("valid");
    let before = reader.decoder.state();
    let too_large = [&hex("40 01 61 20")[..], &[b'y'; 32]].concat();
    reader.read(&too_large).expect("valid");
    reader.read(&hex("40 01 63 01 64")).expect("valid");
    assert_eq!(reader.decoder.table_len(), 1, "as before");
    assert_ne!(reader.decoder.state(), before);
}

/// RFC 7541 4.4: the name of a new entry may be that of one which it evicts.
#[test]
fn a_new_entry_may_take_its_name_from_one_that_it_evicts() {
    let mut reader = Reader::new(64);
    reader.read(&hex("40 04 6e61 6d65 01 62")).expect("valid");
    let mut block = hex("7e 18");
    block.extend([b'z'; 24]);
    let fields = reader.read(&block).expect("valid").expect("within the limits");
    assert_eq!(fields, [(b"name".to_vec(), vec![b'z'; 24])]);
    assert_eq!(reader.read(&[0xbe]).expect("valid"), Some(fields));
}

#[test]
fn the_encoder_uses_no_more_than_both_sides_want() {
    let mut storage = vec![0; 4_096];
    let mut encoder = Encoder::new(u16::MAX);
    encoder.set_peer_table_bytes(&storage, 1 << 20);
    let mut block = Vec::new();
    encoder.begin(&mut storage, &mut block).expect("room");
    assert!(block.is_empty(), "4,096 bytes are what both sides begin with");
    // The smallest size in between has to be said, too (RFC 7541 4.2).
    encoder.set_peer_table_bytes(&storage, 0);
    encoder.set_peer_table_bytes(&storage, 100);
    encoder.begin(&mut storage, &mut block).expect("room");
    assert_eq!(block, hex("20 3f 45"));
    for number in 0..100 {
        let value = format!("{number}");
        encoder.field(&mut storage, b"server", value.as_bytes(), Indexing::Incremental, &mut block).expect("room");
        assert!(encoder.table_bytes() <= 100);
    }
}

#[test]
fn secrets_are_never_indexed() {
    let mut storage = vec![0; 4_096];
    let mut encoder = Encoder::new(4_096);
    for name in ["set-cookie", "authorization", "proxy-authorization", "cookie", "authentication-info"] {
        let mut block = Vec::new();
        let indexing = Indexing::of(name.as_bytes());
        encoder.field(&mut storage, name.as_bytes(), b"secret", indexing, &mut block).expect("room");
        assert_eq!(block[0] & 0xf0, 0x10, "{name}");
        assert_eq!(encoder.table_bytes(), 0);
    }
}

#[test]
fn what_many_responses_have_in_common_is_indexed() {
    for name in [
        "content-type",
        "server",
        "cache-control",
        "vary",
        "content-encoding",
        "accept-ranges",
        "allow",
        "alt-svc",
        "content-language",
        "strict-transport-security",
        "content-security-policy",
        "referrer-policy",
        "via",
        "date",
        "access-control-allow-origin",
        "x-content-type-options",
    ] {
        assert_eq!(Indexing::of(name.as_bytes()), Indexing::Incremental, "{name}");
    }
    for name in ["etag", "content-length", "location", "x-request-id", "access-contro", "x-content"] {
        assert_eq!(Indexing::of(name.as_bytes()), Indexing::Without, "{name}");
    }
}

#[test]
fn status_length_and_date_take_few_bytes() {
    let mut storage = vec![0; 4_096];
    let mut encoder = Encoder::new(4_096);
    let mut lens = Vec::new();
    for second in [0, 0, 1, 1, 0] {
        let mut block = Vec::new();
        encoder.begin(&mut storage, &mut block).expect("room");
        encoder.status(StatusCode::OK, &mut block).expect("room");
        encoder.content_length(5, &mut block).expect("room");
        encoder.date(&mut storage, &crate::date::format(second), &mut block).expect("room");
        lens.push(block.len());
    }
    // A date of an earlier second is found in the table all the same.
    assert_eq!(lens, [29, 6, 29, 6, 6]);
}

#[test]
fn a_response_is_one_block() {
    use crate::h1::{BodyLength, Fields, ResponseHead};
    let long = "X".repeat(100);
    let lines = format!("Content-Type: text/plain\r\nKeep-Alive: 5\r\nUpgrade: h3\r\nSet-Cookie: a=b\r\n{long}: y\r\n");
    let fields = Fields::check(lines.as_bytes()).expect("valid");
    let head =
        ResponseHead::new(&http::Method::GET, http::Version::HTTP_2, StatusCode::IM_A_TEAPOT, BodyLength::Known(12));
    let head = head.expect("a body is allowed").fields(fields);
    let (mut encoder, mut storage, mut reader) = (Encoder::new(4_096), vec![0; 4_096], Reader::new(4_096));
    for _ in 0..2 {
        let mut block = Vec::new();
        encoder.response(&mut storage, &head, &mut block).expect("room");
        let read = reader.read(&block).expect("valid").expect("within the limits");
        let expected = [
            (":status", "418"),
            ("content-type", "text/plain"),
            ("set-cookie", "a=b"),
            (&long.to_lowercase(), "y"),
            ("content-length", "12"),
        ];
        assert!(
            read.iter()
                .map(|(name, value)| (&name[..], &value[..]))
                .eq(expected.map(|(name, value)| (name.as_bytes(), value.as_bytes())))
        );
    }
}

#[test]
fn responses_that_are_remembered_say_the_same() {
    use crate::h1::{BodyLength, Fields, ResponseHead};
    use proptest::prelude::*;
    let blocks: [&[u8]; 5] = [
        b"",
        b"content-type: text/plain\r\n",
        b"content-type: text/html\r\nserver: s\r\n",
        b"etag: \"1\"\r\n",
        b"Vary: accept-encoding, accept-language, origin, x-requested-with, x-forwarded-proto, x-forwarded-host\r\n",
    ];
    let one = (0..5usize, prop_oneof![Just(200u16), Just(404), Just(418)], 0..4u64, 0..3_000u64, 0..24u32);
    proptest!(|(responses in proptest::collection::vec(one, 1..60))| {
        let (mut encoder, mut storage, mut reader) = (Encoder::new(4_096), vec![0; 4_096], Reader::new(4_096));
        for (fields, status, second, length, size) in responses {
            if size < 3 {
                encoder.set_peer_table_bytes(&storage, [0, 100, 4_096][size as usize]);
            }
            let date = crate::date::format(second);
            let status = StatusCode::from_u16(status).expect("a status");
            let head = ResponseHead::new(&http::Method::GET, http::Version::HTTP_2, status, BodyLength::Known(length));
            let fields = Fields::check(blocks[fields]).expect("valid");
            let head = head.expect("a body is allowed").fields(fields);
            // One without a date now and then.
            let head = if second == 3 { head } else { head.date(&date) };
            let mut block = Vec::new();
            encoder.response(&mut storage, &head, &mut block).expect("room");
            let read = reader.read(&block).expect("valid").expect("within the limits");
            let mut expected = vec![(b":status".to_vec(), status.as_str().as_bytes().to_vec())];
            if second != 3 {
                expected.push((b"date".to_vec(), date.to_vec()));
            }
            expected.extend(fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())));
            expected.push((b"content-length".to_vec(), length.to_string().into_bytes()));
            prop_assert_eq!(read, expected);
        }
    });
}

#[test]
fn a_mark_says_what_a_look_would() {
    use crate::h1::syntax::{is_field_value, is_token};
    use crate::h1::target::{host_and_port, is_plain_path};
    use crate::hpack::mark::Name;
    use proptest::prelude::*;
    const NAMES: &[&str] =
        &["host", ":authority", ":path", ":status", ":", "te", "upgrade", "x", "X", "content-length", "a b", ""];
    const VALUES: &[&str] =
        &["a", "a:1", "a:b", "", " a", "a\t", "a\u{1}", "trailers", "[::1]:5", "/a", "/a?b", "/%20"];
    let text = |known: &'static [&'static str]| {
        prop_oneof![
            proptest::sample::select(known).prop_map(|text| text.as_bytes().to_vec()),
            "[ -~]{0,6}".prop_map(String::into_bytes)
        ]
    };
    proptest!(|(name in text(NAMES), value in text(VALUES))| {
        let mark = Mark::of_name(&name).with_value(&value);
        let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        let is_value = is_field_value(&value) && !is_space(value.first()) && !is_space(value.last());
        let is_pseudo = [&b":method"[..], b":scheme", b":authority", b":path", b":protocol"].contains(&&name[..]);
        let is_name = is_pseudo || (is_token(&name) && !name.iter().any(u8::is_ascii_uppercase));
        prop_assert_eq!(mark.is_valid(), is_name && is_value);
        let is_known = match &name[..] {
            b":authority" | b"host" => host_and_port(&value).is_some(),
            b":path" => is_plain_path(&value),
            _ => false,
        };
        prop_assert_eq!(mark.is_host(), is_known);
        prop_assert_eq!(mark.is_plain_path(), is_known);
        prop_assert_eq!(Mark::from_byte(mark.to_byte()), mark);
        if is_pseudo {
            prop_assert!(!matches!(mark.name(), Name::Other | Name::OtherPseudo));
        }
    });
    // Those of the static table are what a look at them says.
    for index in 1..=61 {
        let entry = crate::hpack::static_table::get(index).expect("an entry");
        let looked = Mark::of_name(entry.name()).with_value(entry.value());
        let said = |mark: Mark| (mark.name(), mark.is_valid(), mark.is_host());
        assert_eq!(said(entry.mark), said(looked), "{index}");
    }
}

#[test]
fn a_full_output_is_said() {
    assert_eq!(huffman::decode(&hex("6402"), &mut [0; 2]), Err(Fault::Full));
    let mut encoder = Encoder::new(4_096);
    let mut short = [0; 3];
    let mut sink = &mut short[..];
    assert!(encoder.field(&mut [0; 4_096], b"etag", b"abc", Indexing::Without, &mut sink).is_err());
}

/// So that one field does not drive out what many responses have in common.
#[test]
fn no_field_takes_more_than_a_quarter_of_the_table() {
    for (value_bytes, is_indexed) in [(1_023, true), (1_024, false)] {
        let (mut encoder, mut storage) = (Encoder::new(4_096), [0; 4_096]);
        let value = vec![b'v'; value_bytes];
        encoder.field(&mut storage, b"x", &value, Indexing::Incremental, &mut Vec::new()).expect("room");
        assert_eq!(encoder.table_bytes() > 0, is_indexed, "{value_bytes}");
    }
}

#[test]
fn a_status_of_the_static_table_is_one_byte() {
    for code in 100..1_000 {
        let mut block = Vec::new();
        let status = StatusCode::from_u16(code).expect("three digits");
        Encoder::new(4_096).status(status, &mut block).expect("room");
        let known = [200, 204, 206, 304, 400, 404, 500].iter().position(|known| *known == code);
        assert_eq!((block.len() == 1).then(|| block[0]), known.map(|at| 0x88 + at as u8), "{code}");
        let fields = Reader::new(4_096).read(&block).expect("valid").expect("within the limits");
        assert_eq!(fields, [(b":status".to_vec(), status.as_str().into())]);
    }
}

#[test]
fn a_static_name_is_found_at_its_first_entry() {
    use crate::hpack::static_table::{LEN, find_name, get};
    let names: Vec<&[u8]> = (1..=LEN).map(|index| get(index).expect("an entry").name()).collect();
    for name in &names {
        assert_eq!(find_name(name), names.iter().position(|known| known == name).map(|at| at + 1));
    }
    assert_eq!((find_name(b"x"), find_name(b""), find_name(b"Date")), (None, None, None));
    assert!(get(0).is_none() && get(LEN + 1).is_none());
}

#[test]
fn an_encoder_says_how_much_it_packs() {
    let (mut encoder, mut storage) = (Encoder::new(4_096), [0; 4_096]);
    assert_eq!(encoder.packed_bytes(), 0);
    let mut block = Vec::new();
    encoder.field(&mut storage, b"etag", b"abc", Indexing::Incremental, &mut block).expect("room");
    // The texts, and eight bytes for where they are.
    assert_eq!(encoder.packed_bytes(), "etag".len() + "abc".len() + 8);
    let mut packed = [0; 15];
    assert_eq!(encoder.pack(&mut storage, &mut packed), 15);
    storage.fill(0xee);
    assert_eq!(encoder.unpack(&packed, &mut storage), 15);
    block.clear();
    encoder.field(&mut storage, b"etag", b"abc", Indexing::Incremental, &mut block).expect("room");
    assert_eq!(block, [0xbe], "the entry is there");
}

#[test]
fn the_table_is_a_list() {
    use proptest::prelude::*;
    let ops = proptest::collection::vec((0..4u8, 0..90usize, 0..90usize, 0..400u16), 1..200);
    proptest!(|(ops in ops)| {
        let mut storage = vec![0; 400];
        let mut table = Table::new(400);
        let (mut model, mut size_max): (Vec<super::Field>, usize) = (Vec::new(), 400);
        for (number, (op, name_len, value_len, size)) in ops.into_iter().enumerate() {
            let (name, value) = (vec![number as u8; name_len], vec![!(number as u8); value_len]);
            if number % 5 == 4 {
                // It is put away and taken out again.
                let mut packed = vec![0; table.packed_bytes()];
                prop_assert_eq!(table.pack(&mut storage, &mut packed), packed.len());
                storage.fill(0xee);
                prop_assert_eq!(table.unpack(&packed, &mut storage), packed.len());
            }
            if op == 0 {
                table.resize(&storage, size);
                size_max = size.into();
            } else {
                table.insert(&mut storage, &name, &value, Mark::NONE);
                if name_len + value_len + 32 > size_max { model.clear() } else { model.insert(0, (name, value)) }
            }
            let total = |model: &[super::Field]| model.iter().map(|(name, value)| name.len() + value.len() + 32).sum::<usize>();
            while total(&model) > size_max {
                model.pop();
            }
            prop_assert_eq!((table.len(), table.size()), (model.len(), total(&model)));
            for (index, (name, value)) in model.iter().enumerate() {
                let found = table.get(&storage, index).map(|entry| (entry.name(), entry.value()));
                prop_assert_eq!(found, Some((&name[..], &value[..])));
                prop_assert!(table.find(&storage, name, value).is_some_and(|found| found <= index));
            }
            prop_assert!(table.get(&storage, model.len()).is_none());
        }
    });
}

#[test]
fn an_interim_head_in_between_changes_nothing_for_the_answers() {
    use super::Field;
    use crate::h1::{BodyLength, Fields, ResponseHead};
    let date = crate::date::format(1);
    let answer = |fields| {
        let head = ResponseHead::new(&http::Method::GET, http::Version::HTTP_2, StatusCode::OK, BodyLength::Known(5));
        head.expect("a body is allowed").date(&date).fields(fields)
    };
    let fields = Fields::check(b"content-type: text/html\r\n").expect("valid");
    let hints = Fields::check(b"Link: </a>; rel=preload\r\nvary: accept\r\n").expect("valid");
    let early = ResponseHead::interim(StatusCode::EARLY_HINTS).expect("interim").fields(hints);
    let (mut encoder, mut reader, mut storage) = (Encoder::new(4_096), Reader::new(4_096), [0; 4_096]);
    let mut sizes = Vec::new();
    for is_early in [false, false, true, false, true, true, false] {
        let head = if is_early { early } else { answer(fields) };
        let mut block = Vec::new();
        encoder.response(&mut storage, &head, &mut block).expect("room");
        let read = reader.read(&block).expect("valid").expect("within the limits");
        let text = |list: &[(&str, &str)]| -> Vec<Field> {
            list.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
        };
        let expected = match is_early {
            true => text(&[(":status", "103"), ("link", "</a>; rel=preload"), ("vary", "accept")]),
            false => text(&[
                (":status", "200"),
                ("date", std::str::from_utf8(&date).expect("ASCII")),
                ("content-type", "text/html"),
                ("content-length", "5"),
            ]),
        };
        assert_eq!(read, expected);
        sizes.push(block.len());
    }
    assert_eq!((sizes[3], sizes[6]), (sizes[1], sizes[1]), "what is in the table is still there");
    assert_eq!(sizes[5], sizes[4], "{sizes:?}");
}
