//! Data of a request as types of the program, by serde: parameters of the path, the query, forms, and JSON.
//!
//! | file | what it is |
//! |---|---|
//! | [`pairs`] | names and values, decoded, as a source of serde |
//! | [`params`] | the calls of a request |
//! | [`json`] | bodies of JSON, both ways |

#[cfg(feature = "json")]
pub(crate) mod json;
pub(crate) mod pairs;
pub(crate) mod params;
