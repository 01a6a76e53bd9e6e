//! Server-sent events of the server, on each driver: what is sent, heartbeats, back-pressure, and the end.

use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::rig::{in_simulation, on_each, read, serve, talk};
use plimsoll_http::{Config, Error, Event, EventsConfig, Misuse, Request};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{sleep, spawn};

/// The head, and the body without its chunks; whether the last chunk came.
fn unchunk(answer: &str) -> (String, String, bool) {
    let (head, mut rest) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return (head.to_owned(), body, after == "\r\n");
        }
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").expect("the end of a chunk");
    }
    (head.to_owned(), body, false)
}

const GET: &str = "GET / HTTP/1.1\r\nHost: here\r\nAccept: text/event-stream\r\n";

#[test]
fn events_arrive_as_they_were_given() {
    on_each("events", async || {
        let running = serve(Config::default(), |mut request: Request| async move {
            let seen = request.last_event_id().map(str::to_owned);
            let mut events = request.events(EventsConfig::default())?;
            events.send(&Event::empty().retry(Duration::from_secs(3))).await?;
            events.comment("two\nlines").await?;
            for at in seen.map_or(0, |id| id.parse::<u64>().unwrap_or(0) + 1)..4 {
                events.send(&Event::data("a\nb").event("pair").id(&at.to_string())).await?;
            }
            assert!(matches!(events.send(&Event::data("x").id("1\n2")).await, Err(Error::Misuse(Misuse::EventId))));
            let long = "x".repeat(300_000);
            events.send(&Event::data(&long)).await?;
            events.finish().await
        })?;
        let answer = talk(running.address, &[GET.as_bytes(), b"Connection: close\r\n\r\n"], None).await?;
        let (head, body, ended) = unchunk(&answer);
        assert!(head.starts_with("HTTP/1.1 200 ") && ended, "{head}");
        for field in ["content-type: text/event-stream", "cache-control: no-store"] {
            assert!(head.to_ascii_lowercase().lines().any(|line| line == field), "{head}");
        }
        let event = |at: u64| format!("event: pair\nid: {at}\ndata: a\ndata: b\n\n");
        let tail = format!("data: {}\n\n", "x".repeat(300_000));
        let start = "retry: 3000\n\n: two\n: lines\n\n";
        assert_eq!(body, format!("{start}{}{}{}{}{tail}", event(0), event(1), event(2), event(3)));
        let again = format!("{GET}Last-Event-ID: 2\r\nConnection: close\r\n\r\n");
        let (_, body, _) = unchunk(&talk(running.address, &[again.as_bytes()], None).await?);
        assert_eq!(body, format!("{start}{}{tail}", event(3)));
        // An older client gets them without chunks.
        let old = talk(running.address, &[b"GET / HTTP/1.0\r\nLast-Event-ID: 3\r\n\r\n"], None).await?;
        assert!(old.ends_with(&format!("\r\n\r\n{start}{tail}")), "{}", &old[..200]);
        running.stop().await
    });
}

#[test]
fn silence_is_filled_and_the_stop_ends_the_answer() {
    in_simulation("heartbeats", async || {
        let running = serve(Config::default(), |mut request: Request| async move {
            let mut events = request.events(EventsConfig::default())?;
            assert!(events.wait(sleep(Duration::from_secs(40))).await?.is_some());
            events.send(&Event::data("late")).await?;
            assert!(events.wait(core::future::pending::<()>()).await?.is_none(), "the server stops");
            events.send(&Event::data("bye")).await?;
            events.finish().await
        })?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_bytes(format!("{GET}\r\n").as_bytes()).await?;
        let first = read(&mut client, Some(b"late\n\n")).await?;
        let rest = spawn(async move { read(&mut client, None).await })?;
        running.stop().await?;
        let rest = rest.await.expect("no panic")?;
        let (_, body, ended) = unchunk(&format!("{first}{rest}"));
        assert_eq!((body.as_str(), ended), (":\n\n:\n\ndata: late\n\ndata: bye\n\n", true));
        Ok(())
    });
}

/// The stop on the real drivers: nothing waits for the time that a drain may take.
#[test]
fn the_stop_is_told_at_once() {
    on_each("stop", async || {
        let running = serve(Config::default(), |mut request: Request| async move {
            let mut events = request.events(EventsConfig::default())?;
            events.send(&Event::data("here")).await?;
            while events.wait(core::future::pending::<()>()).await?.is_some() {}
            events.finish().await
        })?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_bytes(format!("{GET}\r\n").as_bytes()).await?;
        let first = read(&mut client, Some(b"here\n\n\r\n")).await?;
        let rest = spawn(async move { read(&mut client, None).await })?;
        running.stop().await?;
        let (_, body, ended) = unchunk(&format!("{first}{}", rest.await.expect("no panic")?));
        assert_eq!((body.as_str(), ended), ("data: here\n\n", true));
        Ok(())
    });
}

#[test]
fn a_client_that_does_not_read_slows_its_handler_down() {
    on_each("back-pressure", async || {
        let (sent, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&sent), Arc::clone(&ended));
        let running = serve(Config::default(), move |mut request: Request| {
            let (sent, ended) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
            async move {
                let finish = request.must_finish();
                let mut events = request.events(EventsConfig::default())?;
                let data = "y".repeat(8_000);
                while events.send(&Event::data(&data)).await.is_ok() {
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                ended.fetch_add(1, Ordering::Relaxed);
                drop(finish);
                events.finish().await
            }
        })?;
        let client = Rc::new({
            let mut client = TcpStream::connect(running.address).await?;
            client.send_bytes(format!("{GET}\r\n").as_bytes()).await?;
            client
        });
        let before = plimsoll_runtime::budget().charged();
        // Until the socket is full: nothing more is written for a while.
        let mut last = u64::MAX;
        while last != sent.load(Ordering::Relaxed) || last == 0 {
            last = sent.load(Ordering::Relaxed);
            sleep(Duration::from_millis(50)).await;
        }
        let held = plimsoll_runtime::budget().charged().saturating_sub(before);
        assert!(held < 512 << 10, "{held} bytes are held for one that does not read");
        assert_eq!(ended.load(Ordering::Relaxed), 0, "it waits");
        drop(client);
        while ended.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(5)).await;
        }
        running.stop().await
    });
}
