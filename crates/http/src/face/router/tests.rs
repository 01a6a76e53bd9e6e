//! Which routes can be there together.

use http::Method;

use super::{RouteError, Router};
use crate::{Request, Response};

async fn none(_req: Request) -> Response {
    Response::text("")
}

#[test]
fn routes_that_cannot_be_there_together_are_named() {
    let router = || Router::new().get("/users/{id}", none);
    assert_eq!(router().get("/users/me", none).post("/users/{id}", none).check(), Ok(()));
    let twice = RouteError::Twice { path: "/users/{id}".to_owned(), method: Method::GET };
    assert_eq!(router().get("/users/{id}", none).check(), Err(twice.clone()));
    assert!(twice.to_string().contains("GET /users/{id}"), "{twice}");
    assert_eq!(router().put("users", none).check(), Err(RouteError::NoSlash { path: "users".to_owned() }));
    for path in ["/users/{name}", "/{", "/{a}{b}", "/{*all}/more"] {
        match router().get(path, none).check() {
            Err(error @ RouteError::Path { .. }) => assert!(error.to_string().contains(path), "{error}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_nested_root_is_the_prefix() {
    let child = Router::new().get("/", none).get("/list", none);
    let router = Router::new().nest("/api", child.clone()).nest("", child);
    assert_eq!(router.check(), Ok(()));
    let shown = format!("{router:?}");
    assert!(shown.contains("\"/api\"") && shown.contains("\"/api/list\"") && shown.contains("\"/\""), "{shown}");
}
