//! Bodies of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::data_error::{DataError, DataPart, Why};
use crate::{Error, IntoResponse, Request, Response};

/// What JSON says that it is.
const JSON: &str = "application/json";

/// An answer of JSON: 200 with the value. Feature `json`.
///
/// ```
/// use plimsoll_http::{IntoResponse, Json, Request, StatusCode};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct User {
///     name: &'static str,
/// }
///
/// async fn create(_req: Request) -> impl IntoResponse {
///     (StatusCode::CREATED, Json(User { name: "ada" }))
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        Response::json(&self.0)
    }
}

impl Request {
    /// The body, which must be JSON (`application/json`, or a type that ends in `+json`) of at most
    /// [`Config::collect_bytes_max`](crate::Config::collect_bytes_max). Feature `json`.
    ///
    /// ```
    /// use plimsoll_http::{Error, Json, Request};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct User {
    ///     name: String,
    /// }
    ///
    /// async fn create(mut req: Request) -> Result<Json<User>, Error> {
    ///     let user: User = req.json().await?;
    ///     Ok(Json(user))
    /// }
    /// ```
    ///
    /// Room for the body is kept as with [`collect`](Self::collect); what its values take on the heap of the program is
    /// the program's, and may be more than the body.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`collect`](Self::collect); [`Error::Data`], which becomes a 415 for a body of another type, a 400 for what
    /// is no JSON and a 422 for JSON that is not a `T`, with line and column.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        let bytes_max = self.handle().config().collect_bytes_max;
        self.json_up_to(bytes_max).await
    }

    /// The same, up to a limit in bytes.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json).
    pub async fn json_up_to<T: DeserializeOwned>(&mut self, bytes_max: usize) -> Result<T, Error> {
        self.expect_type(DataPart::Json, JSON, |kind| kind == JSON || kind.ends_with("+json"))?;
        let body = self.collect_up_to(bytes_max).await?;
        serde_json::from_slice(&body).map_err(|error| DataError { part: DataPart::Json, why: Why::Json(error) }.into())
    }
}
