//! A handler whose error is no answer.
use plimsoll::http::{Request, Server};

async fn user(_request: Request) -> Result<&'static str, std::num::ParseIntError> {
    "7".parse::<u32>()?;
    Ok("seven")
}

#[plimsoll::main]
async fn main() -> plimsoll::Result<()> {
    Server::bind("127.0.0.1:8080")?.serve(user).await
}
