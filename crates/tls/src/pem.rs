//! PEM (RFC 7468): sections of base64 between two lines, with the line of what is wrong.
#![forbid(unsafe_code)]

/// What a file has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Such as `CERTIFICATE`.
    pub(crate) label: String,
    pub(crate) der: Vec<u8>,
    /// Of its first line, from 1.
    pub(crate) line: usize,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
}

/// All sections. What stands between them is left out.
pub(crate) fn sections(text: &[u8]) -> Result<Vec<Section>, Wrong> {
    let mut sections = Vec::new();
    let mut open: Option<(String, usize, Base64)> = None;
    let mut lines = 0;
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let (number, line) = (at + 1, line.trim_ascii());
        lines = number;
        let begins = label(line, b"-----BEGIN ");
        let ends = label(line, b"-----END ");
        match (&mut open, begins, ends) {
            (None, Some(label), _) => open = Some((label, number, Base64::default())),
            (None, None, Some(_)) => return Err(Wrong { line: number, what: "an END without its BEGIN" }),
            (None, None, None) => {}
            (Some(_), Some(_), _) => return Err(Wrong { line: number, what: "a BEGIN before the END of the last" }),
            (Some((label, begun, bytes)), None, Some(end)) => {
                if *label != end {
                    return Err(Wrong { line: number, what: "an END of something else than its BEGIN" });
                }
                let label = core::mem::take(label);
                let Some(der) = core::mem::take(bytes).finish() else {
                    return Err(Wrong { line: number, what: "base64 that is cut short" });
                };
                sections.push(Section { label, der, line: *begun });
                open = None;
            }
            // Such as `Proc-Type: 4,ENCRYPTED`: what follows is not DER.
            (Some(_), None, None) if line.contains(&b':') => {
                return Err(Wrong { line: number, what: "a header: encrypted keys are not taken" });
            }
            (Some((_, _, bytes)), None, None) => {
                if !bytes.take(line) {
                    return Err(Wrong { line: number, what: "a byte that is not base64" });
                }
            }
        }
    }
    match open {
        Some(_) => Err(Wrong { line: lines, what: "no END before the end of the file" }),
        None => Ok(sections),
    }
}

fn label(line: &[u8], before: &[u8]) -> Option<String> {
    let label = line.strip_prefix(before)?.strip_suffix(b"-----")?;
    String::from_utf8(label.to_vec()).ok()
}

#[derive(Default)]
struct Base64 {
    der: Vec<u8>,
    bits: u32,
    digits: usize,
    padding: usize,
}

impl Base64 {
    fn take(&mut self, line: &[u8]) -> bool {
        for byte in line {
            let digit = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if self.padding < 2 => {
                    self.padding += 1;
                    continue;
                }
                _ => return false,
            };
            if self.padding > 0 {
                return false;
            }
            self.bits = self.bits << 6 | u32::from(digit);
            self.digits += 1;
            if self.digits.is_multiple_of(4) {
                self.der.extend_from_slice(&self.bits.to_be_bytes()[1..]);
            }
        }
        true
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        match (self.digits % 4, self.padding) {
            (0, 0) => {}
            (2, 2) => self.der.push((self.bits >> 4) as u8),
            (3, 1) => self.der.extend_from_slice(&((self.bits >> 2) as u16).to_be_bytes()),
            _ => return None,
        }
        Some(self.der)
    }
}

#[cfg(test)]
mod tests {
    use super::{Section, Wrong, sections};

    #[test]
    fn sections_have_their_bytes_and_lines() {
        let text = b"a comment\n-----BEGIN A B-----\r\nAQID\nBAU=\n-----END A B-----\n\n-----BEGIN C-----\nBg==\n-----END C-----";
        let expected = [
            Section { label: "A B".into(), der: vec![1, 2, 3, 4, 5], line: 2 },
            Section { label: "C".into(), der: vec![6], line: 7 },
        ];
        assert_eq!(sections(text).expect("it is well formed"), expected);
        assert!(sections(b"no section\n").expect("nothing is wrong").is_empty());
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        for (text, line, what) in [
            ("-----BEGIN A-----\nAQ$D\n-----END A-----", 2, "a byte that is not base64"),
            ("-----BEGIN A-----\nAQID\nBAU\n-----END A-----", 4, "base64 that is cut short"),
            ("-----BEGIN A-----\nAQ==AQ\n-----END A-----", 2, "a byte that is not base64"),
            ("-----BEGIN A-----\n-----END B-----", 2, "an END of something else than its BEGIN"),
            ("\n-----END B-----", 2, "an END without its BEGIN"),
            ("-----BEGIN A-----\n-----BEGIN A-----", 2, "a BEGIN before the END of the last"),
            ("-----BEGIN A-----\nAQID", 2, "no END before the end of the file"),
            ("-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n", 2, "a header: encrypted keys are not taken"),
        ] {
            assert_eq!(sections(text.as_bytes()), Err(Wrong { line, what }), "{text}");
        }
    }
}
