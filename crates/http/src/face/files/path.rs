//! The path that a request asks for, below a directory.

/// One that is served. It has no NUL, and no segment that is empty, begins with a dot or has an encoded slash, so it
/// leads nowhere but down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// Percent-encoded, without a slash at its end; empty for the directory itself.
    segments: &'a str,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Name,
    /// As directories have it.
    Slash,
}

impl<'a> Asked<'a> {
    /// Checks what is behind the slash of the directory.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let (segments, end) = match path.strip_suffix('/') {
            Some(segments) => (segments, End::Slash),
            None => (path, if path.is_empty() { End::Slash } else { End::Name }),
        };
        if path == "/" || !segments.is_empty() && !segments.split('/').all(is_served) {
            return None;
        }
        Some(Self { segments, end })
    }

    /// Whether it can only be that of a directory.
    pub(super) fn wants_directory(self) -> bool {
        self.end == End::Slash
    }

    /// The path as bytes, with a slash before each segment.
    pub(super) fn decoded(self) -> impl Iterator<Item = u8> + Clone + use<'a> {
        let slash = if self.segments.is_empty() { None } else { Some(b'/') };
        slash.into_iter().chain(decode(self.segments).map(|byte| byte.unwrap_or_default()))
    }
}

fn is_served(segment: &str) -> bool {
    let is_plain = |byte: Option<u8>| byte.is_some_and(|byte| !matches!(byte, 0 | b'/'));
    decode(segment).next().is_some_and(|first| first != Some(b'.')) && decode(segment).all(is_plain)
}

/// The bytes that percent-encoding (RFC 3986 2.1) stands for; `None` for what is malformed.
fn decode(text: &str) -> impl Iterator<Item = Option<u8>> + Clone {
    let mut bytes = text.bytes();
    ::core::iter::from_fn(move || {
        let first = bytes.next()?;
        if first != b'%' {
            return Some(Some(first));
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit(), digit());
        Some(high.zip(low).map(|(high, low)| (high * 16 + low) as u8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(path: &str) -> Option<String> {
        Asked::of(path).map(|asked| String::from_utf8_lossy(&asked.decoded().collect::<Vec<_>>()).into_owned())
    }

    #[test]
    fn paths_lead_down() {
        for (path, is) in [
            ("", ""),
            ("a", "/a"),
            ("a/b.txt", "/a/b.txt"),
            ("a/", "/a"),
            ("a%20b/%c3%A9+", "/a b/\u{e9}+"),
            ("a..b/c.", "/a..b/c."),
            ("...a".trim_start_matches('.'), "/a"),
        ] {
            assert_eq!(decoded(path).as_deref(), Some(is), "{path}");
        }
        for path in [
            "/",
            "//",
            "/a",
            "a//b",
            "a//",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "%2e%2e/a",
            ".%2E/a",
            "a/%2E",
            ".",
            "./a",
            ".git/config",
            "%2egit",
            "...",
            "a%2fb",
            "a%2F",
            "%2Fetc",
            "a%00b",
            "%00",
            "a%",
            "a%2",
            "a%zz",
            "%-1",
        ] {
            assert_eq!(decoded(path), None, "{path}");
        }
        assert!(Asked::of("a/").is_some_and(Asked::wants_directory));
        assert!(Asked::of("").is_some_and(Asked::wants_directory));
        assert!(!Asked::of("a").is_some_and(Asked::wants_directory));
    }
}
