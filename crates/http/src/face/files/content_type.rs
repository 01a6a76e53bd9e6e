//! What the ending of a file's name says of its content.

/// The media type of a file with this path, with the character set of text; bytes of no type for an ending that is not
/// known. Endings are compared in any case of letters.
pub(super) fn of_path(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let ending = name.iter().rposition(|&byte| byte == b'.').map_or(&[][..], |at| &name[at + 1..]);
    let known = TYPES.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(ending));
    known.map_or("application/octet-stream", |(_, content_type)| content_type)
}

/// As IANA has registered them. What browsers ask for most comes first.
const TYPES: [(&str, &str); 57] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("gif", "image/gif"),
    ("ico", "image/vnd.microsoft.icon"),
    ("woff2", "font/woff2"),
    ("woff", "font/woff"),
    ("wasm", "application/wasm"),
    ("map", "application/json"),
    ("txt", "text/plain; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("rtf", "application/rtf"),
    ("webmanifest", "application/manifest+json"),
    ("jsonld", "application/ld+json"),
    ("atom", "application/atom+xml"),
    ("pdf", "application/pdf"),
    ("epub", "application/epub+zip"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("apng", "image/apng"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("jxl", "image/jxl"),
    ("heic", "image/heic"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("aac", "audio/aac"),
    ("flac", "audio/flac"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/vnd.wave"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("webm", "video/webm"),
    ("ogv", "video/ogg"),
    ("mov", "video/quicktime"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("zst", "application/zstd"),
    ("tar", "application/x-tar"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_have_types() {
        for (path, content_type) in [
            ("/srv/index.html", "text/html; charset=utf-8"),
            ("/srv/a.b/PHOTO.JPG", "image/jpeg"),
            ("/srv/app.min.js", "text/javascript; charset=utf-8"),
            ("/srv/data.tar.gz", "application/gzip"),
            ("/srv/x.html/README", "application/octet-stream"),
            ("/srv/odd.", "application/octet-stream"),
            ("/srv/.html/x.unknown", "application/octet-stream"),
        ] {
            assert_eq!(of_path(path.as_bytes()), content_type, "{path}");
        }
        for (at, (ending, _)) in TYPES.iter().enumerate() {
            assert!(TYPES[..at].iter().all(|(other, _)| other != ending), "{ending} is there twice");
        }
    }
}
