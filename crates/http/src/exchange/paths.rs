//! What the paths of the routes are asked for.

/// The paths of the routes, for handlers that ask for a parameter.
pub trait Paths: Send + Sync {
    /// What is answered to a request that has no route.
    fn refusal(&self, method: &http::Method, path: &str) -> crate::exchange::response::Response;

    /// What stands in a path for a parameter of its route.
    fn param<'a>(&'a self, path: &'a str, name: &str) -> Option<&'a str>;

    /// All parameters of a path with their names, in order.
    #[cfg(feature = "serde")]
    fn params<'a>(&'a self, path: &'a str) -> Vec<(&'a str, &'a str)>;
}
