//! What the server of the cases does with a request, for the codec alone and for the whole server.

use std::fmt::Write as _;

use plimsoll_codec::h1::RequestView;
use plimsoll_conformance::h1::BODY_SHOWN_BYTES_MAX;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// After its body, with 200.
    Read,
    /// At once, with 200.
    Early,
    /// After its body, with [`INTERIMS`] and then with 200.
    Hints,
    /// After its body, with a status that has no body.
    Bodiless(u16),
    /// After its body, with 101 if this protocol was offered, else with 426.
    Upgrade { offered: bool },
    /// At once, with 200, and the connection is a tunnel.
    Tunnel,
    /// At once, with 405.
    NotAllowed,
}

/// The protocol that `/upgrade` changes to.
pub(crate) const PROTOCOL: &str = "echo/1";
/// What `/hints` sends before its answer.
pub(crate) const INTERIMS: [u16; 2] = [102, 103];
/// Where there is something to connect to.
const OPEN: &str = "open:1";

impl Plan {
    pub(crate) fn of(view: &RequestView<'_>) -> Self {
        match view.path() {
            _ if view.method() == http::Method::CONNECT && view.host() == Some(OPEN) => Self::Tunnel,
            _ if view.method() == http::Method::CONNECT => Self::NotAllowed,
            "/upgrade" => Self::Upgrade { offered: offers(view) },
            "/early" => Self::Early,
            "/hints" => Self::Hints,
            "/204" => Self::Bodiless(204),
            "/205" => Self::Bodiless(205),
            "/304" => Self::Bodiless(304),
            _ => Self::Read,
        }
    }

    /// Whether the answer says what was seen.
    pub(crate) fn describes(self) -> bool {
        matches!(self, Self::Read | Self::Early | Self::Hints)
    }

    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Read | Self::Early | Self::Hints | Self::Tunnel => 200,
            Self::Upgrade { offered: true } => 101,
            Self::Upgrade { offered: false } => 426,
            Self::Bodiless(status) => status,
            Self::NotAllowed => 405,
        }
    }
}

/// Whether the client would speak our protocol: what the field says, where it counts.
fn offers(view: &RequestView<'_>) -> bool {
    let lists = view.upgrade().into_iter().flat_map(|_| view.fields_named("upgrade"));
    lists
        .flat_map(|list| list.split(|&byte| byte == b','))
        .any(|offer| offer.trim_ascii().eq_ignore_ascii_case(PROTOCOL.as_bytes()))
}

/// `METHOD path ?query host=HOST`.
pub(crate) fn describe(view: &RequestView<'_>) -> String {
    let path = match view.path() {
        path if path.len() > BODY_SHOWN_BYTES_MAX => format!("{} bytes", path.len()),
        path => path.to_owned(),
    };
    let mut seen = format!("{} {path}", view.method());
    let mut add = |part: String| write!(seen, " {part}").expect("a string takes everything");
    view.query().into_iter().for_each(|query| add(format!("?{query}")));
    view.host().into_iter().for_each(|host| add(format!("host={host}")));
    seen
}

/// ` body=BODY`, if there is one.
pub(crate) fn describe_body(body: &[u8]) -> String {
    match body.len() {
        0 => String::new(),
        bytes if bytes > BODY_SHOWN_BYTES_MAX => format!(" body={bytes} bytes"),
        _ => format!(" body={}", body.escape_ascii()),
    }
}

/// ` trailers=NAME=VALUE,...`, if there are some.
pub(crate) fn describe_trailers<'a>(trailers: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let fields: Vec<String> = trailers
        .map(|(name, value)| match value.len() {
            bytes if bytes > BODY_SHOWN_BYTES_MAX => format!("{name}={bytes} bytes"),
            _ => format!("{name}={}", value.escape_ascii()),
        })
        .collect();
    match fields[..] {
        [] => String::new(),
        _ => format!(" trailers={}", fields.join(",")),
    }
}
