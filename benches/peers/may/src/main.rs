//! may_minihttp with one worker of may.
//!
//! `peer-may ADDR`; prints `listening on http://ADDR` when it is ready. Its answers are bodies in one piece and it never closes a connection, so
//! it has no `/blob`.
#![forbid(unsafe_code)]

use std::io::{self, BufRead};

use may_minihttp::{HttpServer, HttpService, Request, Response};
use peer_answers::{NOT_FOUND, OK, Route, factor, json};

#[derive(Clone)]
struct Service;

impl HttpService for Service {
    fn call(&mut self, request: Request, response: &mut Response) -> io::Result<()> {
        let (path, query) =
            request.path().split_once('?').map_or((request.path(), None), |(path, query)| (path, Some(query)));
        match Route::of(request.method(), path) {
            Some(Route::Pipeline) => response.header(TEXT).body(OK),
            Some(Route::Json { count }) => match json(count, factor(query)) {
                Some(text) => response.header(JSON).body_vec(text),
                None => not_found(response),
            },
            Some(Route::Upload) => {
                let mut body = request.body();
                let mut bytes = 0;
                loop {
                    let len = body.fill_buf()?.len();
                    if len == 0 {
                        break;
                    }
                    bytes += len;
                    body.consume(len);
                }
                response.header(TEXT).body_vec(bytes.to_string().into_bytes());
            }
            Some(Route::Blob { .. }) | None => not_found(response),
        }
        Ok(())
    }
}

fn not_found(response: &mut Response) {
    response.status_code(404, "Not Found").header(TEXT).body(NOT_FOUND);
}

fn main() -> io::Result<()> {
    peer_answers::load();
    may::config().set_workers(1).set_pool_capacity(1000).set_stack_size(0x1000);
    let address = peer_answers::address();
    let server = HttpServer(Service).start(&address)?;
    println!("listening on http://{address}");
    server.join().map_err(|_| io::Error::other("the server has panicked"))
}

const TEXT: &str = "Content-Type: text/plain; charset=utf-8";
const JSON: &str = "Content-Type: application/json";
