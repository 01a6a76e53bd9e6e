//! Inputs that need no file in the corpus: the cases of the conformance table, in the form that each target takes.

use plimsoll_conformance::h1::cases;

/// Seeds of a target; none for those that do not read HTTP.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let streams = cases().into_iter().map(|framed| framed.bytes()).filter(|bytes| bytes.len() <= SEED_BYTES_MAX);
    match target {
        "head" | "connection" | "differential" => streams.collect(),
        "chunked" => streams.filter_map(body).collect(),
        "operations" => streams.map(|stream| [SCHEDULE, &stream].concat()).collect(),
        _ => Vec::new(),
    }
}

/// What follows the first head, if it is chunked.
fn body(stream: Vec<u8>) -> Option<Vec<u8>> {
    let end = stream.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let is_chunked = stream[..end].windows(7).any(|window| window == b"chunked");
    is_chunked.then(|| stream[end..].to_vec())
}

/// Three times: 128 bytes come, an answer with a length, its end. The first byte is how many operations there are.
const SCHEDULE: &[u8] = &[9, 7, 113, 192, 7, 113, 192, 7, 113, 192];
/// Longer cases would make a fuzzer slow, and are about limits that it has lower ones for.
const SEED_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests;
