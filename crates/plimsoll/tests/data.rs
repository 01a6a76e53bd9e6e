//! Data of requests as types of the program, through the server: what is taken, and what is said of the rest.
#![forbid(unsafe_code)]

use plimsoll::http::{Config, DataPart, Error, IntoResponse, Json, Request, Response, Router, StatusCode};
use plimsoll::testing::{Answer, Client};
use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct User {
    name: String,
    age: u8,
}

async fn create(mut req: Request) -> Result<impl IntoResponse, Error> {
    let user: User = req.json().await?;
    Ok((StatusCode::CREATED, [("location", "/users/1")], Json(user)))
}

async fn short(mut req: Request) -> Result<Json<Vec<u8>>, Error> {
    req.json_up_to(8).await.map(Json)
}

async fn path(req: Request) -> Result<Response, Error> {
    let (id, name): (u32, String) = req.path_params()?;
    Ok(Response::text(format!("{id} {name}")))
}

async fn query(req: Request) -> Result<Json<User>, Error> {
    req.query().map(Json)
}

async fn form(mut req: Request) -> Result<Json<User>, Error> {
    req.form().await.map(Json)
}

fn client() -> Client {
    let routes = Router::new().post("/users", create).post("/short", short);
    Client::new(routes.get("/path/{id}/{name}", path).get("/query", query).post("/form", form))
}

#[track_caller]
fn says(answer: &Answer, status: u16, text: &str) {
    assert_eq!((answer.status().as_u16(), answer.text()), (status, text));
}

#[test]
fn json_comes_and_goes() {
    let client = client();
    let ada = User { name: "ada".to_owned(), age: 36 };
    let answer = client.post("/users").json(&ada).send();
    assert_eq!(answer.status(), StatusCode::CREATED);
    assert_eq!(
        (answer.header("location"), answer.header("content-type")),
        (Some("/users/1"), Some("application/json"))
    );
    assert_eq!(answer.json::<User>(), ada);
    let typed = |kind| client.post("/users").header("Content-Type", kind).body(r#"{"name":"ada","age":36}"#).send();
    assert_eq!(typed("application/problem+json; charset=utf-8").status(), StatusCode::CREATED);
    says(&typed("text/plain"), 415, "the JSON: send it with Content-Type: application/json\n");
    client.finish();
}

#[test]
fn json_that_does_not_fit_is_told_where() {
    let client = client();
    let send = |path: &str, text: &str| client.post(path).header("Content-Type", "application/json").body(text).send();
    says(&send("/users", "{\n\"name\": ada}"), 400, "the JSON: expected value at line 2 column 9\n");
    says(&send("/users", "{\"name\":"), 400, "the JSON: EOF while parsing a value at line 1 column 8\n");
    says(&send("/users", "{\"name\":\"ada\"}"), 422, "the JSON: missing field `age` at line 1 column 14\n");
    let (status, text) = (422, "the JSON: invalid value: integer `300`, expected u8 at line 1 column 23\n");
    says(&send("/users", "{\"name\":\"ada\",\"age\":300}"), status, text);
    assert_eq!(send("/short", "[1,2,3]").json::<Vec<u8>>(), [1, 2, 3]);
    assert_eq!(send("/short", "[1,2,3,4,5]").status(), StatusCode::PAYLOAD_TOO_LARGE);
    client.finish();
}

#[test]
fn parameters_are_decoded() {
    let client = client();
    says(&client.get("/path/7/a+b%20%2F%c3%a9").send(), 200, "7 a+b /\u{e9}");
    says(&client.get("/path/x/a").send(), 400, "the path: `id`: invalid digit found in string\n");
    says(&client.get("/path/7/%ff").send(), 400, "the path: `name`: it is not UTF-8\n");
    says(&client.get("/query?age=7&name=a+b%2B").send(), 200, r#"{"name":"a b+","age":7}"#);
    says(&client.get("/query").send(), 400, "the query: missing field `name`\n");
    says(
        &client.get("/query?name=a&age=300").send(),
        400,
        "the query: `age`: number too large to fit in target type\n",
    );
    client.finish();
}

#[test]
fn forms_are_decoded() {
    let client = client();
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let send = |text: &str| client.post("/form").header(kind.0, kind.1).body(text).send();
    says(&send("name=a+b&age=7"), 200, r#"{"name":"a b","age":7}"#);
    says(&send("name=a"), 422, "the form: missing field `age`\n");
    assert_eq!(client.post("/form").body("name=a&age=7").send().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    client.finish();
}

#[test]
fn a_limit_of_the_server_holds_for_json() {
    let config = Config { collect_bytes_max: 10, ..Config::default() };
    let client = Client::builder().config(config).serve(create);
    let answer = client.post("/").json(&User { name: "ada".to_owned(), age: 36 }).send();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    client.finish();
}

#[test]
fn an_error_names_its_part_and_its_source() {
    let told = async |req: Request| match req.query::<User>() {
        Err(error @ Error::Data(_)) => {
            let source = std::error::Error::source(&error).expect("the data error");
            let below = source.source().expect("the field's").to_string();
            let Error::Data(data) = &error else { unreachable!() };
            assert_eq!((data.part(), data.status()), (DataPart::Query, StatusCode::BAD_REQUEST));
            Response::text(below)
        }
        other => panic!("{other:?}"),
    };
    let client = Client::new(told);
    says(&client.get("/?name=a").send(), 200, "missing field `age`");
    client.finish();
}

#[test]
fn a_request_becomes_one_of_the_http_crate() {
    let told = async |mut req: Request| {
        req.extensions_mut().insert(7_u8);
        let head = req.to_http("body").expect("it is a request there, too");
        let accepted: Vec<_> =
            head.headers().get_all("accept").iter().map(|value| value.to_str().expect("text")).collect();
        let (left, body) = (head.extensions().get::<u8>().copied(), *head.body());
        format!("{} {} {:?} {accepted:?} {left:?} {body}", head.method(), head.uri(), head.version())
    };
    let client = Client::new(told);
    let answer = client.post("/a%20b?c=d").header("Accept", "x").header("ACCEPT", "y").send();
    says(&answer, 200, r#"POST /a%20b?c=d HTTP/1.1 ["x", "y"] Some(7) body"#);
    client.finish();
}
