//! Bounds on what a peer may send, validated once.

use crate::Error;

/// Bounds of one HTTP/1 connection. Every field is validated, so that a value of this type can be used without checks.
///
/// ```
/// use plimsoll_codec::h1::Limits;
///
/// let limits = Limits::builder().head_bytes_max(8_192).request_line_bytes_max(4_096).validate()?;
/// assert_eq!(limits.head_bytes(), 8_192);
/// assert!(Limits::builder().head_bytes_max(1 << 20).validate().is_err());
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    head_bytes_max: u16,
    request_line_bytes_max: u16,
    fields_max: u16,
    trailer_bytes_max: u16,
    chunk_extension_bytes_max: u32,
    chunk_overhead_free_bytes_max: u32,
    chunk_overhead_ratio_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

impl Limits {
    /// The limits that hold if nothing else is asked for.
    pub const DEFAULT: Limits = Limits {
        head_bytes_max: 16_384,
        request_line_bytes_max: 8_192,
        fields_max: 100,
        trailer_bytes_max: 4_096,
        chunk_extension_bytes_max: 16_384,
        chunk_overhead_free_bytes_max: 65_536,
        chunk_overhead_ratio_max: 8,
    };

    /// Starts from the defaults; the same as [`Limits::default`].
    #[must_use]
    pub fn builder() -> LimitsBuilder {
        LimitsBuilder::default()
    }

    /// Longest head, from the request line to the empty line, both with their CRLF.
    #[must_use]
    pub const fn head_bytes(&self) -> usize {
        self.head_bytes_max as usize
    }

    /// Longest request line, without its CRLF.
    #[must_use]
    pub const fn request_line_bytes(&self) -> usize {
        self.request_line_bytes_max as usize
    }

    /// Most field lines in a head, and in a trailer section.
    #[must_use]
    pub const fn fields(&self) -> usize {
        self.fields_max as usize
    }

    /// Longest trailer section, with its empty line.
    #[must_use]
    pub const fn trailer_bytes(&self) -> usize {
        self.trailer_bytes_max as usize
    }

    /// Most bytes of chunk extensions in one message.
    #[must_use]
    pub const fn chunk_extension_bytes(&self) -> u32 {
        self.chunk_extension_bytes_max
    }

    /// Bytes of chunk framing that a message may have before the ratio counts.
    #[must_use]
    pub const fn chunk_overhead_free_bytes(&self) -> u32 {
        self.chunk_overhead_free_bytes_max
    }

    /// Bytes of chunk framing that every byte of data allows for.
    #[must_use]
    pub const fn chunk_overhead_ratio(&self) -> u32 {
        self.chunk_overhead_ratio_max
    }
}

/// Limits that are not validated yet. See [`Limits`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LimitsBuilder {
    head_bytes_max: u32,
    request_line_bytes_max: u32,
    fields_max: u32,
    trailer_bytes_max: u32,
    chunk_extension_bytes_max: u32,
    chunk_overhead_free_bytes_max: u32,
    chunk_overhead_ratio_max: u32,
}

impl Default for LimitsBuilder {
    fn default() -> Self {
        Limits::DEFAULT.into()
    }
}

impl From<Limits> for LimitsBuilder {
    fn from(limits: Limits) -> Self {
        LimitsBuilder {
            head_bytes_max: u32::from(limits.head_bytes_max),
            request_line_bytes_max: u32::from(limits.request_line_bytes_max),
            fields_max: u32::from(limits.fields_max),
            trailer_bytes_max: u32::from(limits.trailer_bytes_max),
            chunk_extension_bytes_max: limits.chunk_extension_bytes_max,
            chunk_overhead_free_bytes_max: limits.chunk_overhead_free_bytes_max,
            chunk_overhead_ratio_max: limits.chunk_overhead_ratio_max,
        }
    }
}

impl LimitsBuilder {
    /// Longest head in bytes, 128 to 65,535; default 16,384.
    #[must_use]
    pub const fn head_bytes_max(mut self, bytes: u32) -> Self {
        self.head_bytes_max = bytes;
        self
    }

    /// Longest request line in bytes without its CRLF, 32 to `head_bytes_max - 4`; default 8,192.
    #[must_use]
    pub const fn request_line_bytes_max(mut self, bytes: u32) -> Self {
        self.request_line_bytes_max = bytes;
        self
    }

    /// Most field lines, 1 to [`FIELDS_CEILING`]; default 100.
    #[must_use]
    pub const fn fields_max(mut self, fields: u32) -> Self {
        self.fields_max = fields;
        self
    }

    /// Longest trailer section in bytes, 2 (no trailers at all) to 65,535; default 4,096.
    #[must_use]
    pub const fn trailer_bytes_max(mut self, bytes: u32) -> Self {
        self.trailer_bytes_max = bytes;
        self
    }

    /// Most bytes of chunk extensions in a message; default 16,384, 0 forbids them.
    #[must_use]
    pub const fn chunk_extension_bytes_max(mut self, bytes: u32) -> Self {
        self.chunk_extension_bytes_max = bytes;
        self
    }

    /// Bytes of chunk framing that are always allowed, 64 or more; default 65,536.
    #[must_use]
    pub const fn chunk_overhead_free_bytes_max(mut self, bytes: u32) -> Self {
        self.chunk_overhead_free_bytes_max = bytes;
        self
    }

    /// Bytes of chunk framing allowed for each byte of data, 1 to 1,024; default 8.
    #[must_use]
    pub const fn chunk_overhead_ratio_max(mut self, ratio: u32) -> Self {
        self.chunk_overhead_ratio_max = ratio;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`] if one is outside of the range that its method states.
    pub const fn validate(self) -> Result<Limits, Error> {
        let LimitsBuilder { head_bytes_max, request_line_bytes_max, fields_max, trailer_bytes_max, .. } = self;
        let valid = head_bytes_max >= 128
            && head_bytes_max <= u16::MAX as u32
            && request_line_bytes_max >= 32
            && request_line_bytes_max <= head_bytes_max - 4
            && fields_max >= 1
            && fields_max <= FIELDS_CEILING as u32
            && trailer_bytes_max >= 2
            && trailer_bytes_max <= u16::MAX as u32
            && self.chunk_overhead_free_bytes_max >= 64
            && self.chunk_overhead_ratio_max >= 1
            && self.chunk_overhead_ratio_max <= 1_024;
        if !valid {
            return Err(Error::LimitInvalid);
        }
        Ok(Limits {
            head_bytes_max: head_bytes_max as u16,
            request_line_bytes_max: request_line_bytes_max as u16,
            fields_max: fields_max as u16,
            trailer_bytes_max: trailer_bytes_max as u16,
            chunk_extension_bytes_max: self.chunk_extension_bytes_max,
            chunk_overhead_free_bytes_max: self.chunk_overhead_free_bytes_max,
            chunk_overhead_ratio_max: self.chunk_overhead_ratio_max,
        })
    }
}

/// No limit of fields can be set higher: tokenising a head uses 32 bytes of stack for each.
pub const FIELDS_CEILING: usize = 256;
