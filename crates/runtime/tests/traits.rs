//! Other people's protocols on our streams: tokio's, futures' and hyper's traits, on all drivers.

#![forbid(unsafe_code)]

mod support;

use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::rt::Timer as _;
use hyper::service::service_fn;
use hyper::{Request, Response};
use plimsoll_runtime::hyper::Timer;
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Error, OnWorker, Result, now, sleep, spawn, yield_now};
use support::{on_each, wait_max};

async fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

fn failed(error: impl core::fmt::Display) -> Error {
    panic!("{error}")
}

#[test]
fn a_stream_is_one_of_tokio() {
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    on_each("tokio's traits", async || {
        let (mut client, server) = pair().await?;
        let (_, mut writer) = server.into_split();
        assert!(writer.is_write_vectored());
        assert_eq!(poll_fn(|cx| Pin::new(&mut writer).poll_write(cx, b"hello")).await.map_err(failed)?, 5);
        let mut room = [0; 8];
        let mut buffer = ReadBuf::new(&mut room);
        buffer.put_slice(b"> ");
        while buffer.filled().len() < 7 {
            poll_fn(|cx| Pin::new(&mut client).poll_read(cx, &mut buffer)).await.map_err(failed)?;
        }
        assert_eq!(buffer.filled(), b"> hello");
        Ok(())
    });
}

#[test]
fn a_stream_is_one_of_futures() {
    use futures_io::{AsyncRead, AsyncWrite};

    on_each("futures' traits", async || {
        let (mut client, mut server) = pair().await?;
        poll_fn(|cx| Pin::new(&mut server).poll_write(cx, b"hello")).await.map_err(failed)?;
        poll_fn(|cx| Pin::new(&mut server).poll_close(cx)).await.map_err(failed)?;
        let (mut got, mut room) = (Vec::new(), [0; 3]);
        loop {
            match poll_fn(|cx| Pin::new(&mut client).poll_read(cx, &mut room)).await.map_err(failed)? {
                0 => break,
                count => got.extend_from_slice(&room[..count]),
            }
        }
        assert_eq!(got, b"hello");
        Ok(())
    });
}

/// Crates that ask for `Send` get the same traits from the owner that has it.
#[test]
fn an_owner_of_a_stream_is_one_of_tokio_futures_and_hyper() {
    fn only_send<T: Send>(value: T) -> T {
        value
    }

    on_each("an owner's traits", async || {
        let (client, server) = pair().await?;
        let (mut client, mut server) = (only_send(OnWorker::new(client)?), only_send(OnWorker::new(server)?));
        let slices = [std::io::IoSlice::new(b"hello"), std::io::IoSlice::new(b" you")];
        let written =
            poll_fn(|cx| tokio::io::AsyncWrite::poll_write_vectored(Pin::new(&mut server), cx, &slices)).await;
        assert_eq!(written.map_err(failed)?, 9);
        poll_fn(|cx| tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut server), cx)).await.map_err(failed)?;
        let mut room = [0; 5];
        let mut buffer = tokio::io::ReadBuf::new(&mut room);
        poll_fn(|cx| tokio::io::AsyncRead::poll_read(Pin::new(&mut client), cx, &mut buffer)).await.map_err(failed)?;
        assert_eq!(buffer.filled(), b"hello");
        let mut room = [0; 9];
        let read = poll_fn(|cx| futures_io::AsyncRead::poll_read(Pin::new(&mut client), cx, &mut room)).await;
        assert_eq!(&room[..read.map_err(failed)?], b" you");
        let service = service_fn(async |_| Ok::<_, core::convert::Infallible>(Response::new(Full::<Bytes>::default())));
        let (client, server) = pair().await?;
        let serving = hyper::server::conn::http1::Builder::new().serve_connection(OnWorker::new(server)?, service);
        let serving = spawn(serving)?;
        let asking = hyper::client::conn::http1::handshake(OnWorker::new(client)?).await;
        let (mut sender, connection) = asking.map_err(failed)?;
        let connection = spawn(connection)?;
        let request = Request::get("/").body(Full::<Bytes>::default()).map_err(failed)?;
        assert_eq!(sender.send_request(request).await.map_err(failed)?.status(), 200);
        drop(sender);
        connection.await.expect("no panic").map_err(failed)?;
        serving.await.expect("no panic").map_err(failed)
    });
}

/// Hyper on both sides, with a body of a megabyte each way, on one connection after the other.
#[test]
fn hyper_serves_and_asks() {
    async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        Ok(Response::new(Full::new(request.into_body().collect().await?.to_bytes())))
    }

    on_each("hyper", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let server = spawn(async move {
            for _ in 0..2 {
                let (stream, _) = listener.accept().await?;
                let mut http = hyper::server::conn::http1::Builder::new();
                let served = http.timer(Timer).serve_connection(stream, service_fn(echo)).await;
                served.unwrap_or_else(|error| panic!("{error}"));
            }
            Ok::<_, Error>(())
        })?;
        for bytes in [0, 1_000_000] {
            let stream = TcpStream::connect(address).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
            let connection = spawn(connection)?;
            for _ in 0..3 {
                let body: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
                let request = Request::post("/").header("host", "here").body(Full::new(Bytes::from(body.clone())));
                let answer = sender.send_request(request.expect("a request")).await.map_err(failed)?;
                let echoed = answer.into_body().collect().await.map_err(failed)?.to_bytes();
                assert!(echoed == body, "{} bytes of {bytes}", echoed.len());
            }
            drop(sender);
            connection.await.expect("it ends").map_err(failed)?;
        }
        server.await.expect("it ends")
    });
}

#[test]
fn the_timer_of_hyper_takes_its_time_and_can_be_reset() {
    on_each("hyper's timer", async || {
        let start = now();
        let mut pause = Timer.sleep(Duration::from_millis(30));
        pause.as_mut().await;
        assert!(now() - start >= Duration::from_millis(30));
        let began = Timer.now();
        pause = Timer.sleep_until(began + Duration::from_secs(3_600));
        Timer.reset(&mut pause, began + Duration::from_millis(10));
        pause.await;
        assert!(Timer.now() - began >= Duration::from_millis(10));
        Timer.sleep_until(began).await;
        Ok(())
    });
}

/// Counts its drops, and cannot be sent.
struct Counted(Rc<()>, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(Rc::strong_count(&self.0), 1);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_value_that_is_dropped_elsewhere_comes_home() {
    on_each("comes home", async || {
        let drops = Arc::new(AtomicUsize::new(0));
        let make = || OnWorker::new(Counted(Rc::new(()), Arc::clone(&drops)));
        // More than a page of entries, and again in the places that come free.
        for round in 1..=3 {
            let values = (0..300).map(|_| make()).collect::<Result<Vec<_>>>()?;
            std::thread::spawn(move || drop(values)).join().expect("they may be dropped there");
            let start = now();
            while drops.load(Ordering::Relaxed) < 300 * round {
                assert!(now() - start < wait_max(), "{} of {}", drops.load(Ordering::Relaxed), 300 * round);
                sleep(Duration::from_millis(1)).await;
            }
        }
        let here = make()?;
        assert_eq!(Rc::strong_count(&here.into_inner().0), 1);
        assert_eq!(drops.load(Ordering::Relaxed), 901);
        Ok(())
    });
}

#[test]
fn a_value_that_is_used_elsewhere_says_where_it_belongs() {
    on_each("used elsewhere", async || {
        let mut value = OnWorker::new(Rc::new(7))?;
        assert!(value.is_here());
        let (value, message) = std::thread::spawn(move || {
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| value.with(|seven| **seven)));
            let message = used.expect_err("it is of another thread");
            (value, *message.downcast::<String>().expect("a text"))
        })
        .join()
        .expect("it was caught");
        assert!(message.contains("on the worker that made it"), "{message}");
        // A panic of its own code leaves it where it was.
        let mut value = value;
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| value.with(|_| panic!("its own"))));
        assert!(own.is_err());
        assert_eq!(value.with(|seven| **seven), 7);
        Ok(())
    });
}

/// What is left of it at the end of the runtime is dropped there, and owners that come later find nothing.
#[test]
fn values_end_with_their_worker() {
    let drops = Arc::new(AtomicUsize::new(0));
    let runtime = plimsoll_runtime::Runtime::builder().workers(1).build().expect("it starts");
    let mut value =
        runtime.block_on(async { OnWorker::new(Counted(Rc::new(()), Arc::clone(&drops))) }).expect("there is room");
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    assert_eq!(runtime.shutdown().leaked_bytes, 0);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert!(!value.is_here());
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| value.with(|_| ())));
    assert!(used.is_err());
    drop(value);
}

/// A stream in an owner that may be sent, polled and dropped as other crates do.
#[test]
fn an_owner_of_a_stream_may_be_in_a_future_that_can_be_sent() {
    fn can_be_sent<F: Future + Send>(future: F) -> F {
        future
    }

    on_each("a stream's owner", async || {
        let (client, mut server) = pair().await?;
        let mut client = OnWorker::new(client)?;
        server.send_bytes(b"hello").await?;
        let reading = can_be_sent(async move {
            let mut buffer = [0; 8];
            let count = poll_fn(|cx| client.with(|stream| stream.poll_read(cx, &mut buffer))).await;
            count.map(|count| buffer[..count].to_vec())
        });
        assert_eq!(reading.await?, b"hello");
        yield_now().await;
        assert!(server.recv().await?.is_none(), "it was closed");
        Ok(())
    });
}
