//! What a record looks like to people.
//!
//! | form | file |
//! |---|---|
//! | the figures of all forms, with the best of each column | [`table`] |
//! | text for a terminal | [`mod@text`] |
//! | a page with plots that needs no other file | [`html`] |
//! | the plots | [`plot`] |
//! | the README's figures and plot | [`readme`] |

pub(super) mod html;
mod plot;
pub(crate) mod readme;
pub(super) mod table;
pub(super) mod text;

pub(super) use html::page;
pub(super) use text::text;
