//! Parameters of the path, the query and forms, as types of the program.

use serde::de::DeserializeOwned;

use crate::base::data_error::{DataError, DataPart, FieldError, Why};
use crate::face::data::pairs::Pairs;
#[cfg(feature = "router")]
use crate::face::data::pairs::{Plus, decode};
use crate::{Error, Request};

/// What forms say that they are.
const FORM: &str = "application/x-www-form-urlencoded";

impl Request {
    /// The parameters of the route's path, percent-decoded: as a struct or map by their names, as a tuple in their
    /// order, or the only one as it is. A `+` is a `+`. Feature `serde`.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, Router};
    ///
    /// async fn user(req: Request) -> Result<Response, Error> {
    ///     let id: u64 = req.path_params()?;
    ///     Ok(Response::text(format!("user {id}\n")))
    /// }
    ///
    /// async fn post(req: Request) -> Result<Response, Error> {
    ///     let (id, slug): (u64, String) = req.path_params()?;
    ///     Ok(Response::text(format!("post {slug} of {id}\n")))
    /// }
    /// let routes = Router::new().get("/users/{id}", user).get("/users/{id}/posts/{slug}", post);
    /// # assert!(routes.check().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Data`], which becomes a 400 that names the parameter.
    #[cfg(feature = "router")]
    pub fn path_params<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let pairs = || {
            let mut pairs = Pairs::default();
            for (name, value) in self.routes().map(|routes| routes.params(self.path())).unwrap_or_default() {
                let value = decode(value.as_bytes(), Plus::Plus).map_err(|error| error.of(name))?;
                pairs.push(name.to_owned(), value);
            }
            pairs.into_value()
        };
        pairs().map_err(|error| refused(DataPart::Path, error))
    }

    /// The query, decoded as forms are: as a struct or map. A name that comes several times is a `Vec`. Without a query
    /// it is an empty one. Feature `serde`.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Page {
    ///     #[serde(default)]
    ///     offset: u64,
    ///     tag: Option<Vec<String>>,
    /// }
    ///
    /// async fn list(req: Request) -> Result<Response, Error> {
    ///     let page: Page = req.query()?;
    ///     Ok(Response::text(format!("from {} with {:?}\n", page.offset, page.tag)))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Data`], which becomes a 400 that names the field.
    pub fn query<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let text = self.query_string().unwrap_or_default();
        let value = Pairs::of_form(text.as_bytes()).and_then(Pairs::into_value);
        value.map_err(|error| refused(DataPart::Query, error))
    }

    /// The body, which must be a form (`application/x-www-form-urlencoded`) of at most
    /// [`Config::collect_bytes_max`](crate::Config::collect_bytes_max): as [`query`](Self::query). Feature `serde`.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`collect`](Self::collect); [`Error::Data`], which becomes a 415 for a body of another type, else a 422 that
    /// names the field.
    pub async fn form<T: DeserializeOwned>(&mut self) -> Result<T, Error> {
        self.expect_type(DataPart::Form, FORM, |kind| kind == FORM)?;
        let body = self.collect().await?;
        let value = Pairs::of_form(&body).and_then(Pairs::into_value);
        value.map_err(|error| refused(DataPart::Form, error))
    }

    /// Looks whether the body says that it is what the handler asks for.
    pub(crate) fn expect_type(
        &self,
        part: DataPart,
        wanted: &'static str,
        fits: impl FnOnce(&str) -> bool,
    ) -> Result<(), Error> {
        let given =
            self.header("content-type").and_then(|value| ::core::str::from_utf8(value).ok()).unwrap_or_default();
        let kind = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if fits(&kind) { Ok(()) } else { Err(DataError { part, why: Why::ContentType(wanted) }.into()) }
    }
}

fn refused(part: DataPart, error: FieldError) -> Error {
    DataError { part, why: Why::Field(error) }.into()
}
