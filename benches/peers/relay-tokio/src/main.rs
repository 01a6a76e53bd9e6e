//! A relay as tokio's users write one: a task for each pair, `copy_bidirectional` in it. One thread.
//!
//! `relay-tokio ADDR TO`. Prints `listening on ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::error::Error;

use tokio::net::{TcpListener, TcpStream};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (listen, to) = arguments.next().zip(arguments.next()).ok_or("relay-tokio ADDR TO")?;
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let listener = TcpListener::bind(&listen).await?;
        println!("listening on {}", listener.local_addr()?);
        let to: std::net::SocketAddr = to.parse()?;
        loop {
            let Ok((mut near, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    })
}
