//! HTTP/1.1 as a minimal server needs it, on httparse and without input and output: bytes in, answers and what to do
//! next out. The loops on tokio, monoio and compio share it, so that they differ in nothing but their runtime.

use crate::{BINARY, JSON, NOT_FOUND, OK, Route, TEXT, factor, json};

/// A connection.
#[derive(Debug, Default)]
pub struct Session {
    upload: Option<Upload>,
    /// The client wants no further answer.
    last: bool,
}

/// A body that is counted.
#[derive(Clone, Copy, Debug)]
struct Upload {
    bytes: u64,
    left: u64,
}

/// What the connection's loop has to do after it has sent what there is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read, and feed what was left together with what has come.
    Read,
    /// Feed the rest again: the answers so far are large.
    Send,
    /// Send so many bytes of [`crate::BLOB`], and feed the rest.
    Blob(u64),
    /// Close.
    Close,
}

impl Session {
    /// A new connection.
    pub fn new() -> Session {
        Session::default()
    }

    /// Takes what is complete from the front of `input` and appends the answers to `out`. Returns how much it took.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Next) {
        let mut taken = 0;
        loop {
            if let Some(upload) = &mut self.upload {
                let len = upload.left.min((input.len() - taken) as u64);
                upload.left -= len;
                taken += len as usize;
                if upload.left > 0 {
                    return (taken, Next::Read);
                }
                append(out, "200 OK", TEXT, upload.bytes.to_string().as_bytes());
                self.upload = None;
            }
            if self.last {
                return (taken, Next::Close);
            }
            if out.len() >= OUT_BYTES {
                return (taken, Next::Send);
            }
            let Some(rest) = input.get(taken..).filter(|rest| !rest.is_empty()) else { return (taken, Next::Read) };
            match self.head(rest, out) {
                Head::Partial if rest.len() < HEAD_BYTES_MAX => return (taken, Next::Read),
                Head::Answered(len) => taken += len,
                Head::Blob(len, bytes) => return (taken + len, Next::Blob(bytes)),
                Head::Partial | Head::Wrong => {
                    append(out, "400 Bad Request", TEXT, b"");
                    return (input.len(), Next::Close);
                }
            }
        }
    }

    fn head(&mut self, input: &[u8], out: &mut Vec<u8>) -> Head {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let len = match request.parse(input) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Head::Partial,
            Err(_) => return Head::Wrong,
        };
        let (Some(method), Some(target)) = (request.method, request.path) else { return Head::Wrong };
        let mut body_bytes = 0;
        self.last = request.version == Some(0);
        for field in request.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                let Some(bytes) = std::str::from_utf8(field.value).ok().and_then(|value| value.parse().ok()) else {
                    return Head::Wrong;
                };
                body_bytes = bytes;
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                return Head::Wrong;
            } else if field.name.eq_ignore_ascii_case("connection") {
                self.last |= field.value.eq_ignore_ascii_case(b"close");
            }
        }
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        let route = Route::of(method, path);
        if route == Some(Route::Upload) {
            self.upload = Some(Upload { bytes: body_bytes, left: body_bytes });
            return Head::Answered(len);
        }
        if body_bytes > 0 {
            return Head::Wrong;
        }
        match route {
            Some(Route::Pipeline) => append(out, "200 OK", TEXT, OK.as_bytes()),
            Some(Route::Json { count }) => match json(count, factor(query)) {
                Some(text) => append(out, "200 OK", JSON, &text),
                None => append(out, "404 Not Found", TEXT, NOT_FOUND.as_bytes()),
            },
            Some(Route::Blob { bytes }) => {
                append_head(out, "200 OK", BINARY, bytes);
                return Head::Blob(len, bytes);
            }
            Some(Route::Upload) | None => append(out, "404 Not Found", TEXT, NOT_FOUND.as_bytes()),
        }
        Head::Answered(len)
    }
}

/// How a head was taken, with its length.
enum Head {
    Partial,
    Wrong,
    Answered(usize),
    Blob(usize, u64),
}

fn append(out: &mut Vec<u8>, status: &str, content_type: &str, body: &[u8]) {
    append_head(out, status, content_type, body.len() as u64);
    out.extend_from_slice(body);
}

fn append_head(out: &mut Vec<u8>, status: &str, content_type: &str, length: u64) {
    for part in ["HTTP/1.1 ", status, "\r\ncontent-type: ", content_type, "\r\ncontent-length: "] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

/// Answers are sent before more are made than so much.
const OUT_BYTES: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 32;
