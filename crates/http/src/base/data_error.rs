//! What is wrong with the data of a request.

use ::core::error::Error;
use ::core::fmt;

use http::StatusCode;

/// The data of a request are not what the handler asked for: a parameter of its path, its query, a form, JSON.
///
/// Its text says where, and is made for whoever sent the request: nothing of the program is in it but names of fields.
#[derive(Debug)]
pub struct DataError {
    pub(crate) part: DataPart,
    pub(crate) why: Why,
}

/// Where a request has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DataPart {
    /// The parameters of the route's path.
    Path,
    /// The query.
    Query,
    /// A body that is a form.
    Form,
    /// A body of JSON.
    Json,
}

impl DataPart {
    /// What it is called in an error.
    fn name(self) -> &'static str {
        match self {
            Self::Path => "the path",
            Self::Query => "the query",
            Self::Form => "the form",
            Self::Json => "the JSON",
        }
    }
}

#[derive(Debug)]
pub(crate) enum Why {
    /// The body says that it is something else.
    ContentType(&'static str),
    /// A field.
    Field(FieldError),
    /// With line and column.
    #[cfg(feature = "json")]
    Json(serde_json::Error),
}

/// A field that is missing, or is not what it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) name: Option<Box<str>>,
    pub(crate) message: Box<str>,
}

impl FieldError {
    /// The same, of this field if none was named.
    pub(crate) fn of(self, name: &str) -> Self {
        Self { name: self.name.or_else(|| Some(name.into())), ..self }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl Error for FieldError {}

impl DataError {
    /// Where the data are.
    pub fn part(&self) -> DataPart {
        self.part
    }

    /// The status that tells the client so: 400 for a path, a query or what is no JSON at all, 415 for a body of
    /// another type, 422 for a form or for JSON that is not what was asked for.
    pub fn status(&self) -> StatusCode {
        match (&self.why, self.part) {
            (Why::ContentType(_), _) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            #[cfg(feature = "json")]
            (Why::Json(error), _) if !error.is_data() => StatusCode::BAD_REQUEST,
            (_, DataPart::Form | DataPart::Json) => StatusCode::UNPROCESSABLE_ENTITY,
            (_, DataPart::Path | DataPart::Query) => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.part.name())?;
        match &self.why {
            Why::ContentType(wanted) => write!(f, "send it with Content-Type: {wanted}"),
            Why::Field(error) => error.fmt(f),
            #[cfg(feature = "json")]
            Why::Json(error) => error.fmt(f),
        }
    }
}

impl Error for DataError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.why {
            Why::ContentType(_) => None,
            Why::Field(error) => Some(error),
            #[cfg(feature = "json")]
            Why::Json(error) => Some(error),
        }
    }
}
