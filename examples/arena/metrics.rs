//! `/metrics`: what the server holds and has done, as Prometheus text, and what became of the access log.

use plimsoll::http::{Response, metrics};

use crate::State;

/// The answer to `/metrics`.
pub(crate) async fn answer(state: &State) -> Response {
    let mut text = metrics::text(&state.counters).await;
    let lost_lines = state.log.as_ref().map_or(0, |log| log.lost_lines());
    text.push_str("# HELP plimsoll_access_log_lost_total Lines that the access log lost.\n");
    text.push_str("# TYPE plimsoll_access_log_lost_total counter\n");
    text.push_str(&format!("plimsoll_access_log_lost_total {lost_lines}\n"));
    Response::new(plimsoll::http::StatusCode::OK).body(text).header("Content-Type", metrics::CONTENT_TYPE)
}
