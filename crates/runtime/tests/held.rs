//! At the memory line streams that cannot copy what they received do not stop the worker's other receives.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use plimsoll_pool::Class;
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Error, Kind, pool};

static LONG: [u8; 30_000] = [7; 30_000];
/// More than there are buffers.
const STREAMS: usize = 6;

#[test]
fn refused_copies_do_not_keep_the_buffers() {
    support::on_each("held", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut pairs = Vec::new();
        for _ in 0..=STREAMS {
            let mut client = TcpStream::connect(listener.local_addr()).await?;
            let (mut server, _) = listener.accept().await?;
            client.send_static(b"first").await?;
            assert_eq!(server.recv().await?.as_deref(), Some(&b"first"[..]));
            pairs.push((client, server));
        }
        let mut memory = Vec::new();
        for class in Class::ALL.into_iter().rev() {
            while let Ok(lease) = pool().try_acquire_class(class, Kind::Buffers) {
                memory.push(lease);
            }
        }
        let mut last = pairs.pop().expect("there are some");
        for (client, server) in &mut pairs {
            client.send_static(&LONG).await?;
            let refused = server.recv().await;
            assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
        }
        drop(memory);
        // Nobody has come back for what they could not have; the others go on.
        for _ in 0..10 {
            last.0.send_static(&LONG).await?;
            let mut left = LONG.len();
            while left > 0 {
                let got = last.1.recv().await?.expect("the client is there");
                left -= got.len();
            }
        }
        let mut kept = 0;
        for (_, server) in &mut pairs {
            match server.recv().await {
                Ok(bytes) => {
                    assert!(bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 7)));
                    kept += 1;
                }
                Err(error) => assert!(matches!(error, Error::OverBudget(_)), "{error}"),
            }
        }
        assert!(kept <= 2, "{kept} streams kept buffers");
        Ok(())
    });
}
