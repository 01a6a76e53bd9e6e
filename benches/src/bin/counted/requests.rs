//! What is sent.

/// What wrk sends.
pub(crate) const GET: &[u8] = b"GET /pipeline HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

/// What a browser behind a proxy sends.
pub(crate) const GET_20_FIELDS: &[u8] = b"GET /pipeline HTTP/1.1\r\n\
Host: www.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://www.example.org/harbour/berths?sort=draught\r\n\
Cookie: session=6f1c2a9be07d45f38c11; theme=dark; seen=1763755200\r\n\
Connection: keep-alive\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Sec-Fetch-Dest: document\r\n\
Sec-Fetch-Mode: navigate\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-User: ?1\r\n\
DNT: 1\r\n\
Priority: u=0, i\r\n\
If-None-Match: \"33a64df551425fcc55e4d42a148795d9\"\r\n\
Cache-Control: max-age=0\r\n\
X-Forwarded-For: 203.0.113.195\r\n\
X-Forwarded-Proto: https\r\n\
X-Request-Id: 0b6d7f0e-7a39-4c0e-8c36-0f0a6f0e1a55\r\n\
\r\n";

/// Sixteen in one piece.
pub(crate) fn pipelined() -> Vec<u8> {
    GET.repeat(PIPELINED as usize)
}

pub(crate) fn echo_with_length() -> Vec<u8> {
    let head = format!("POST /echo HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    [head.as_bytes(), &[b'p'; BODY_BYTES]].concat()
}

pub(crate) fn echo_in_chunks() -> Vec<u8> {
    let head = b"POST /echo HTTP/1.1\r\nHost: localhost:8080\r\nTransfer-Encoding: chunked\r\n\r\n";
    [&head[..], &chunked_body()].concat()
}

/// Four chunks of equal size and the last one.
pub(crate) fn chunked_body() -> Vec<u8> {
    let chunk = [format!("{:x}\r\n", BODY_BYTES / 4).as_bytes(), &[b'p'; BODY_BYTES / 4], b"\r\n"].concat();
    [&chunk.repeat(4)[..], b"0\r\n\r\n"].concat()
}

/// The handshake of RFC 6455 1.3, for a handler and for a task.
pub(crate) const WEBSOCKET: &[u8] =
    b"GET /ws HTTP/1.1\r\nHost: localhost:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
pub(crate) const WEBSOCKET_TASK: &[u8] = b"GET /ws-task HTTP/1.1\r\nHost: localhost:8080\r\nUpgrade: websocket\r\n\
Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A binary message of 64 bytes, with a mask.
pub(crate) fn message() -> Vec<u8> {
    let mut frame = vec![0x82, 0x80 | 64, 1, 2, 3, 4];
    frame.extend((1..=4).map(|mask| b'm' ^ mask).cycle().take(64));
    frame
}

/// What h2load sends before its requests: the preface, SETTINGS, and the acknowledgement of ours.
pub(crate) const HTTP2_BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";

/// A GET of HTTP/2 as h2load sends it. The first of a connection puts three fields into the table of HPACK, the others
/// refer to them.
pub(crate) fn http2_get(stream: u32, is_first: bool) -> Vec<u8> {
    const FIRST: &[u8] = b"\x82\x86\x41\x0elocalhost:8080\x44\x09/pipeline\x7a\x15h2load nghttp2/1.52.0";
    let block = if is_first { FIRST } else { b"\x82\x86\xc0\xbf\xbe" };
    [&[0, 0, block.len() as u8, 1, 5][..], &stream.to_be_bytes(), block].concat()
}

/// Requests of HTTP/2 that are sent together.
pub(crate) const STREAMS: u32 = 32;
/// Requests that are sent together.
pub(crate) const PIPELINED: u32 = 16;
/// Of a request's body.
pub(crate) const BODY_BYTES: usize = 1_000;
