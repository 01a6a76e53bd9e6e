//! The Huffman code of RFC 7541 5.2 and appendix B.
//!
//! The code is canonical: among codes of the same length, those of lower symbols come first, and each length goes on
//! where the shorter ones ended. So the lengths say everything, and the tables are computed from them when the crate is
//! compiled. Decoding looks at eight bits at a time, which is all that most text needs; longer codes are found by
//! comparing with the first code of each length.

/// Why a string cannot be decoded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The end-of-string symbol, or padding that is longer than seven bits or not all ones.
    Invalid,
    /// The output is too short.
    Full,
}

/// Decodes a string to the front of `out`, and returns how many bytes it has.
pub(crate) fn decode(encoded: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
    // The bits that are not decoded yet, at the top of the word; below them zeros.
    let mut word: u64 = 0;
    let mut bits: u32 = 0;
    let mut rest = encoded;
    let mut written = 0;
    loop {
        while bits <= 56
            && let [byte, after @ ..] = rest
        {
            word |= u64::from(*byte) << (56 - bits);
            bits += 8;
            rest = after;
        }
        // While whole codes are certain to be there, no refill.
        loop {
            let Short { len, symbol } = SHORT[(word >> 56) as usize];
            let (len, symbol) = if len != 0 { (u32::from(len), symbol) } else { long((word >> 32) as u32)? };
            if len > bits {
                let is_padding = bits < 8 && (bits == 0 || word >> (64 - bits) == (1 << bits) - 1);
                return if is_padding && rest.is_empty() { Ok(written) } else { Err(Fault::Invalid) };
            }
            *out.get_mut(written).ok_or(Fault::Full)? = symbol;
            written += 1;
            word <<= len;
            bits -= len;
            if bits < CODE_BITS_MAX && !rest.is_empty() {
                break;
            }
        }
    }
}

/// A code of more than eight bits at the top of the word.
fn long(word: u32) -> Result<(u32, u8), Fault> {
    let mut len = 9;
    while len < CODE_BITS_MAX as usize && word >= AFTER[len] {
        len += 1;
    }
    let offset = ((word - AFTER[len - 1]) >> (32 - len)) as usize;
    let symbol = ORDERED[FIRST[len] as usize + offset];
    match u8::try_from(symbol) {
        Ok(symbol) => Ok((len as u32, symbol)),
        // The end of the string has no place in one. The padding has its first bits, and is shorter than any long code.
        Err(_) => Ok((CODE_BITS_MAX + 64, 0)),
    }
}

/// How many bytes a string has when it is encoded.
pub(crate) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Encodes a string, byte by byte.
pub(crate) fn encode(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut text = text.iter();
    let mut word: u64 = 0;
    let mut bits: u32 = 0;
    std::iter::from_fn(move || {
        while bits < 8 {
            match text.next() {
                Some(&byte) => {
                    let (code, len) = (CODES[usize::from(byte)], u32::from(LENGTHS[usize::from(byte)]));
                    word |= u64::from(code) << (64 - bits - len);
                    bits += len;
                }
                None if bits == 0 => return None,
                None => {
                    word |= u64::MAX >> bits;
                    bits = 8;
                }
            }
        }
        let byte = (word >> 56) as u8;
        word <<= 8;
        bits -= 8;
        Some(byte)
    })
}

/// The longest code.
const CODE_BITS_MAX: u32 = 30;

/// Length of the code of each symbol, in bits; 256 is the end of the string.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// A code of at most eight bits, or `len` 0.
#[derive(Copy, Clone)]
struct Short {
    len: u8,
    symbol: u8,
}

/// Symbols in the order of their codes.
static ORDERED: [u16; 257] = ordered();
/// Where the symbols of a length begin in `ORDERED`.
static FIRST: [u16; 32] = first();
/// The code that follows the last one of this length or shorter ones, at the top of a word.
static AFTER: [u32; 32] = after();
static CODES: [u32; 257] = codes();
static SHORT: [Short; 256] = short();

const fn ordered() -> [u16; 257] {
    let mut table = [0; 257];
    let (mut len, mut at) = (1, 0);
    while len <= CODE_BITS_MAX {
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as u32 == len {
                table[at] = symbol as u16;
                at += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    assert!(at == 257);
    table
}

const fn count(len: usize) -> u64 {
    let (mut symbol, mut count) = (0, 0);
    while symbol < 257 {
        if LENGTHS[symbol] as usize == len {
            count += 1;
        }
        symbol += 1;
    }
    count
}

const fn first() -> [u16; 32] {
    let mut table = [0; 32];
    let mut len = 1;
    while len < 32 {
        table[len] = table[len - 1] + count(len - 1) as u16;
        len += 1;
    }
    table
}

const fn after() -> [u32; 32] {
    let mut table = [0; 32];
    let (mut len, mut code) = (1, 0u64);
    while len < 31 {
        code += count(len) << (32 - len);
        // The codes fill the whole space: after the longest the sum is 2^32, for which there is no need.
        table[len] = if code > u32::MAX as u64 { u32::MAX } else { code as u32 };
        len += 1;
    }
    assert!(code == 1 << 32, "the lengths make a complete code");
    table
}

const fn codes() -> [u32; 257] {
    let (after, first, ordered) = (after(), first(), ordered());
    let mut table = [0; 257];
    let mut at = 0;
    while at < 257 {
        let symbol = ordered[at] as usize;
        let len = LENGTHS[symbol] as usize;
        table[symbol] = (after[len - 1] >> (32 - len)) + (at as u32 - first[len] as u32);
        at += 1;
    }
    table
}

const fn short() -> [Short; 256] {
    let codes = codes();
    let mut table = [Short { len: 0, symbol: 0 }; 256];
    let mut symbol = 0;
    while symbol < 256 {
        let len = LENGTHS[symbol];
        if len <= 8 {
            let from = (codes[symbol] << (8 - len)) as usize;
            let mut at = from;
            while at < from + (1 << (8 - len)) {
                table[at] = Short { len, symbol: symbol as u8 };
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}
