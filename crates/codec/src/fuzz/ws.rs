//! WebSocket: frames of any bytes, and messages through compression.

use crate::Error;
use crate::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role, Utf8};

/// Something that one end of a WebSocket was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A whole message.
    Message {
        /// Text, not binary.
        is_text: bool,
        /// Its payload is compressed.
        is_compressed: bool,
        /// The payload.
        payload: Vec<u8>,
    },
    /// A ping.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// The end.
    Close(Option<CloseCode>, Vec<u8>),
    /// An error, and that was the end.
    Failed(Error),
}

/// The first byte chooses role and compression, the rest are frames: however they are split, the same is told.
pub fn ws_frames(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let role = if choice & 1 == 0 { Role::Server } else { Role::Client };
    let limits = Limits { message_bytes_max: 1_000, fragments_max: 5 };
    let decoder = Decoder::new(role, limits);
    let decoder = if choice & 2 == 0 { decoder } else { decoder.compressed() };
    let whole = read_ws(decoder.clone(), data, &[]);
    let single: Vec<usize> = (0..data.len()).collect();
    assert_eq!(whole, read_ws(decoder.clone(), data, &single), "one byte at a time");
    let cut = usize::from(choice) * data.len() / 256;
    assert_eq!(whole, read_ws(decoder.clone(), data, &[cut]), "in two parts, cut at {cut}");
    for told in &whole {
        if let Told::Message { is_text, is_compressed, payload } = told {
            assert!(payload.len() <= 1_000);
            assert!(!is_text || *is_compressed || std::str::from_utf8(payload).is_ok());
        }
    }
    // What was read, written again, is read as the same.
    let key = (role == Role::Server).then_some([choice, 7, 0, 255]);
    let written: Vec<u8> = whole.iter().flat_map(|told| write_ws(told, key)).collect();
    let valid = whole.iter().filter(|told| !matches!(told, Told::Failed(_)));
    assert!(read_ws(decoder, &written, &[]).iter().eq(valid));
}

/// Any bytes as a text in two parts: the same as if it were checked as a whole.
pub fn ws_text(data: &[u8]) {
    let whole = std::str::from_utf8(data).is_ok();
    for cut in 0..=data.len().min(64) {
        let (first, second) = data.split_at(cut);
        let mut text = Utf8::new();
        let checked = text.check(first).and_then(|()| text.check(second)).and_then(|()| text.finish());
        assert_eq!(checked.is_ok(), whole, "cut at {cut}");
    }
    let mut text = Utf8::new();
    let checked = data.iter().try_for_each(|&byte| text.check(&[byte])).and_then(|()| text.finish());
    assert_eq!(checked.is_ok(), whole, "one byte at a time");
}

/// Any bytes as a message to inflate, and as one to deflate and inflate again. Does nothing without the feature
/// `deflate`.
pub fn ws_deflate(data: &[u8]) {
    #[cfg(feature = "deflate")]
    {
        use crate::ws::{Deflater, Inflater};
        const BYTES_MAX: usize = 64 * 1_024;
        let inflate = |parts: &[&[u8]]| {
            let (mut inflater, mut out) = (Inflater::new(false), Vec::new());
            for part in parts {
                inflater.inflate(part, BYTES_MAX as u64, |bytes| {
                    out.extend_from_slice(bytes);
                    assert!(out.len() <= BYTES_MAX, "bounded while it runs");
                    Ok(())
                })?;
            }
            inflater.finish(BYTES_MAX as u64, |bytes| {
                out.extend_from_slice(bytes);
                assert!(out.len() <= BYTES_MAX, "bounded while it runs");
                Ok(())
            })?;
            Ok::<_, Error>(out)
        };
        let _judged_by_the_asserts = inflate(&[data]);
        let mut packed = Vec::new();
        let deflated = Deflater::new(9 + (data.len() % 7) as u8, false).and_then(|mut deflater| {
            deflater.message(data, |bytes| {
                packed.extend_from_slice(bytes);
                Ok(())
            })
        });
        assert_eq!(deflated, Ok(()));
        let (first, second) = packed.split_at(packed.len() / 2);
        let again = inflate(&[first, second]);
        assert_eq!(
            again.as_deref(),
            if data.len() <= BYTES_MAX { Ok(data) } else { Err(&Error::WebSocketMessageTooLarge) }
        );
    }
    let _used_with_the_feature = data;
}

/// Reads frames that come in parts, cut at `cuts`.
pub(crate) fn read_ws(mut decoder: Decoder, data: &[u8], cuts: &[usize]) -> Vec<Told> {
    let (mut told, mut kept, mut from) = (Vec::new(), Vec::new(), 0);
    let mut message = None;
    for &cut in cuts.iter().chain([&data.len()]) {
        kept.extend_from_slice(&data[from..cut]);
        from = cut;
        loop {
            let decoded = match decoder.decode(&mut kept, 0) {
                Ok(decoded) => decoded,
                Err(error) => {
                    assert_eq!(decoder.decode(&mut kept, 0), Err(error), "an error is for ever");
                    told.push(Told::Failed(error));
                    return told;
                }
            };
            assert!(decoded.consumed <= kept.len());
            let taken: Vec<u8> = kept.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore => break,
                Event::Begin { is_text, is_compressed } => {
                    assert!(message.is_none());
                    message = Some((is_text, is_compressed, Vec::new()));
                }
                Event::Data(range) => {
                    assert!(!range.is_empty());
                    let (_, _, payload) = message.as_mut().expect("data is of a message");
                    payload.extend_from_slice(&taken[range]);
                }
                Event::End => {
                    let (is_text, is_compressed, payload) = message.take().expect("a message ends");
                    told.push(Told::Message { is_text, is_compressed, payload });
                }
                Event::Ping(range) => told.push(Told::Ping(taken[range].to_vec())),
                Event::Pong(range) => told.push(Told::Pong(taken[range].to_vec())),
                Event::Close { code, reason } => told.push(Told::Close(code, taken[reason].to_vec())),
            }
        }
        assert!(kept.len() < 139, "less than a control frame is left");
        assert_eq!(decoder.is_within_message(), message.is_some());
    }
    told
}

/// The frame of what was told; nothing for an error.
fn write_ws(told: &Told, key: Option<[u8; 4]>) -> Vec<u8> {
    let (opcode, is_compressed, mut payload) = match told {
        Told::Message { is_text: true, is_compressed, payload } => (Opcode::Text, *is_compressed, payload.clone()),
        Told::Message { is_text: false, is_compressed, payload } => (Opcode::Binary, *is_compressed, payload.clone()),
        Told::Ping(payload) => (Opcode::Ping, false, payload.clone()),
        Told::Pong(payload) => (Opcode::Pong, false, payload.clone()),
        Told::Close(None, _) => (Opcode::Close, false, Vec::new()),
        Told::Close(Some(code), reason) => (Opcode::Close, false, [&code.0.to_be_bytes()[..], reason].concat()),
        Told::Failed(_) => return Vec::new(),
    };
    let head = FrameHead { is_compressed, mask: key, ..FrameHead::message(opcode, payload.len() as u64) };
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}
