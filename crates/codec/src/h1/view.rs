//! Reading a request in place.

use http::{Method, Version};

use super::{FieldSlot, Framing, RequestHead, Span, TargetForm};

/// A head's bytes, its slots and what was parsed, paired for reading. Copies nothing.
///
/// ```
/// use plimsoll_codec::h1::{self, FieldSlot, Limits, RequestView};
///
/// let head = b"GET /search?q=hull HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\naccept: */*\r\n\r\n";
/// let mut slots = [FieldSlot::EMPTY; 8];
/// let request = h1::parse_head(head, &mut slots, &Limits::DEFAULT)?;
/// let view = RequestView::new(head, &slots[..], &request);
/// assert_eq!((view.path(), view.query()), ("/search", Some("q=hull")));
/// assert_eq!(view.field("ACCEPT"), Some(&b"text/html"[..]));
/// assert_eq!(view.fields_named("accept").count(), 2);
/// assert_eq!(view.fields().count(), 3);
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct RequestView<'a> {
    head: &'a [u8],
    slots: SlotTable<'a>,
    request: &'a RequestHead,
}

/// Slots as they are kept: typed, or as bytes beside the head (see [`FieldSlot::to_bytes`]).
#[derive(Copy, Clone, Debug)]
pub enum SlotTable<'a> {
    /// A slice of slots.
    Typed(&'a [FieldSlot]),
    /// Eight bytes for each slot.
    Bytes(&'a [[u8; 8]]),
}

impl<'a> From<&'a [FieldSlot]> for SlotTable<'a> {
    fn from(slots: &'a [FieldSlot]) -> Self {
        SlotTable::Typed(slots)
    }
}

impl<'a> From<&'a [[u8; 8]]> for SlotTable<'a> {
    fn from(slots: &'a [[u8; 8]]) -> Self {
        SlotTable::Bytes(slots)
    }
}

impl SlotTable<'_> {
    fn len(&self) -> usize {
        match self {
            SlotTable::Typed(slots) => slots.len(),
            SlotTable::Bytes(slots) => slots.len(),
        }
    }

    #[inline]
    fn slot(&self, index: usize) -> FieldSlot {
        match self {
            SlotTable::Typed(slots) => slots[index],
            SlotTable::Bytes(slots) => FieldSlot::from_bytes(slots[index]),
        }
    }
}

impl<'a> RequestView<'a> {
    /// Pairs what [`parse_head`](super::parse_head) was given and returned. The head may have moved since.
    ///
    /// # Panics
    ///
    /// If there are fewer slots than the request has fields. The other methods panic if the head is shorter than the
    /// one that was parsed.
    #[must_use]
    pub fn new(head: &'a [u8], slots: impl Into<SlotTable<'a>>, request: &'a RequestHead) -> Self {
        let slots = slots.into();
        assert!(slots.len() >= usize::from(request.fields), "a slot for each field");
        debug_assert!(request.target.range().end <= head.len(), "the head that was parsed");
        RequestView { head, slots, request }
    }

    /// The head's bytes.
    #[must_use]
    pub const fn head(&self) -> &'a [u8] {
        self.head
    }

    /// What was parsed.
    #[must_use]
    pub const fn request(&self) -> &'a RequestHead {
        self.request
    }

    /// The method.
    #[must_use]
    pub const fn method(&self) -> &'a Method {
        &self.request.method
    }

    /// HTTP/1.0, HTTP/1.1 or HTTP/2.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.request.version
    }

    /// How the body is delimited.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.request.framing
    }

    /// The target as it was sent.
    #[must_use]
    pub fn target(&self) -> &'a str {
        self.text(self.request.target)
    }

    /// The path, percent-encoded as it came; `/` if an absolute target has none (`*` for OPTIONS), empty for CONNECT.
    #[must_use]
    pub fn path(&self) -> &'a str {
        match (self.request.form, self.request.path.len) {
            (TargetForm::Absolute, 0) if self.request.method == Method::OPTIONS && self.request.query.is_none() => "*",
            (TargetForm::Absolute, 0) => "/",
            _ => self.text(self.request.path),
        }
    }

    /// What follows the `?`, percent-encoded as it came.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.request.query.map(|span| self.text(span))
    }

    /// Host and port that the request is for; see [`RequestHead::host`].
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        self.request.host.map(|span| self.text(span))
    }

    /// The protocols that the client would like to change to; see [`RequestHead::upgrade`].
    #[must_use]
    pub fn upgrade(&self) -> Option<&'a [u8]> {
        self.request.upgrade.map(|span| span.of_head(self.head))
    }

    /// All field lines in order: the name as it was sent, the value without white space around it.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> + Clone + use<'a> {
        let view = *self;
        (0..usize::from(self.request.fields)).map(move |index| {
            let slot = view.slots.slot(index);
            (view.text(slot.name()), slot.value().of_head(view.head))
        })
    }

    /// The value of the first field line of this name, in any case of letters.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.fields_named(name).next()
    }

    /// The values of all field lines of this name, in any case of letters, in order.
    pub fn fields_named<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let view = *self;
        (0..usize::from(self.request.fields)).filter_map(move |index| {
            let slot = view.slots.slot(index);
            let found = usize::from(slot.name_len) == name.len()
                && slot.name().of_head(view.head).eq_ignore_ascii_case(name.as_bytes());
            found.then(|| slot.value().of_head(view.head))
        })
    }

    fn text(&self, span: Span) -> &'a str {
        let text = std::str::from_utf8(span.of_head(self.head));
        debug_assert!(text.is_ok(), "targets, hosts and names are ASCII");
        text.unwrap_or_default()
    }
}
