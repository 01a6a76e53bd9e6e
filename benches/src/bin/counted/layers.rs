//! A route with layers of the server around it. In the program only with the feature `layers`: many handlers of many
//! types change what the compiler puts into one function, and so what the other kinds cost.

use std::time::Duration;

use plimsoll::MemoryLimit;
use plimsoll::http::layer::{BodyLimit, CatchPanic, Endpoint, Layer, Log, Next, RequestId, Timeout, from_fn};
use plimsoll::http::{Request, Response, Router};

use crate::server;

/// What is around the route.
pub(crate) const KINDS: [&str; 9] = [
    "route",
    "layer-nothing",
    "layer-boxed",
    "layer-from-fn",
    "layer-request-id",
    "layer-log",
    "layer-timeout",
    "layer-body-limit",
    "layer-catch-panic",
];

/// One request after the other for the route.
pub(crate) fn run(kind: &str, count: u32, line: MemoryLimit) {
    let (routes, path) = (Router::new(), "/pipeline");
    let routes = match kind {
        "layer-boxed" => routes.get(path, pipeline).layer(Nothing),
        "layer-nothing" => routes.get(path, Nothing.around(pipeline)),
        "layer-from-fn" => {
            routes.get(path, from_fn(async |request: Request, next: Next<'_>| next.run(request).await).around(pipeline))
        }
        "layer-request-id" => routes.get(path, RequestId::new().around(pipeline)),
        "layer-log" => routes.get(path, Log::new(|_record| {}).around(pipeline)),
        "layer-timeout" => routes.get(path, Timeout::new(Duration::from_secs(1)).around(pipeline)),
        "layer-body-limit" => routes.get(path, BodyLimit::new(1_024).around(pipeline)),
        "layer-catch-panic" => routes.get(path, CatchPanic.around(pipeline)),
        _ => routes.get(path, pipeline),
    };
    server::route(routes, count, line);
}

async fn pipeline(_request: Request) -> Response {
    Response::text("ok")
}

/// A layer that does nothing.
#[derive(Clone)]
struct Nothing;

impl Layer for Nothing {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        next.call(request).await
    }
}
