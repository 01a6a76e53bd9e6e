//! The examples of RFC 7541 appendix C.

use super::{Reader, hex};
use crate::hpack::{huffman, integer};

/// Blocks of one connection, the fields of each as lines, and the size of the table after each.
fn check(table_bytes: u16, blocks: &[(&str, &str, usize)]) {
    let mut reader = Reader::new(table_bytes);
    for (block, expected, size) in blocks {
        let fields = reader.read(&hex(block)).expect("a valid block").expect("within the limits");
        let lines: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii())).collect();
        assert_eq!(lines.join("\n"), *expected);
        assert_eq!(reader.decoder.table_bytes(), *size);
    }
}

#[test]
fn integers_c_1() {
    for (value, prefix_bits, encoded) in [(10, 5, &[10][..]), (1_337, 5, &[31, 154, 10]), (42, 8, &[42])] {
        assert_eq!(integer::decode(encoded, prefix_bits), Ok((value, encoded.len())));
        let mut written = Vec::new();
        integer::encode(&mut written, 0, prefix_bits, value).expect("room");
        assert_eq!(written, encoded);
    }
}

/// RFC 7541 5.1: also the value that is all ones in the prefix, which says that more follows, and the last and first of
/// each length.
#[test]
fn integers_come_back_from_every_prefix() {
    for prefix_bits in 1..=8 {
        let mask = (1 << prefix_bits) - 1;
        let before = !(mask as u8);
        let borders =
            [(mask - 1, 1), (mask, 2), (mask + 127, 2), (mask + 128, 3), (mask + 16_383, 3), (mask + 16_384, 4)];
        for (value, len) in borders {
            let mut written = Vec::new();
            integer::encode(&mut written, before, prefix_bits, value).expect("room");
            assert_eq!((written.len(), written[0] & before), (len, before), "{value} in {prefix_bits} bits");
            assert_eq!(integer::decode(&written, prefix_bits), Ok((value, len)));
        }
    }
}

#[test]
fn fields_c_2() {
    check(
        256,
        &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header", 55)],
    );
    check(256, &[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", 0)]);
    check(256, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret", 0)]);
    check(256, &[("82", ":method: GET", 0)]);
}

const REQUESTS: [(&str, usize); 3] = [
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com", 57),
    (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache", 110),
    (":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value", 164),
];

#[test]
fn requests_c_3_and_c_4() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        let rows: Vec<_> = blocks.iter().zip(REQUESTS).map(|(block, (fields, size))| (*block, fields, size)).collect();
        check(4_096, &rows);
    }
}

const RESPONSES: [(&str, usize); 3] = [
    (
        ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
        222,
    ),
    (
        ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com",
        222,
    ),
    (
        ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
         content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        215,
    ),
];

#[test]
fn responses_with_evictions_c_5_and_c_6() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e \
         1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d \
         4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 \
         7369 6f6e 3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
         cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, huffman] {
        let rows: Vec<_> = blocks.iter().zip(RESPONSES).map(|(block, (fields, size))| (*block, fields, size)).collect();
        check(256, &rows);
    }
}

#[test]
fn the_huffman_code_of_some_strings() {
    for (text, encoded) in [
        (&b"www.example.com"[..], "f1e3 c2e5 f23a 6ba0 ab90 f4ff"),
        (b"no-cache", "a8eb 1064 9cbf"),
        (b"302", "6402"),
        (b"private", "aec3 771a 4b"),
        (b"", ""),
    ] {
        let encoded = hex(encoded);
        assert_eq!(huffman::encode(text).collect::<Vec<_>>(), encoded);
        assert_eq!(huffman::encoded_len(text), encoded.len());
        let mut out = [0; 32];
        let len = huffman::decode(&encoded, &mut out).expect("valid");
        assert_eq!(&out[..len], text);
    }
}
