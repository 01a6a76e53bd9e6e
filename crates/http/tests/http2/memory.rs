//! What HTTP/2 connections hold: while they wait, while bodies come in bulk, while memory is short. In the simulation,
//! whose time is cheap.

use core::time::Duration;

use plimsoll_http::{Config, Error, ExchangeEnd, HTTP2_PARKED_BYTES, Request, Response, Shed};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, Result, sleep};

use crate::rig::frames::{
    Client, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, SETTINGS, WINDOW_UPDATE, frame, request,
};
use crate::rig::memory::fill_to;
use crate::rig::{count_body, in_simulation, serve};

async fn answer(mut req: Request) -> core::result::Result<Response, Error> {
    match req.path() {
        "/field" => {
            let value = req.header("x-kept").map(<[u8]>::to_vec);
            Ok(Response::text(value.unwrap_or_default()))
        }
        _ => Ok(Response::text(count_body(&mut req).await?.to_string())),
    }
}

/// A GET of `/field`. The first puts its fields into the table, the others refer to them.
fn field(stream: u32, is_first: bool) -> Vec<u8> {
    let block = if is_first {
        b"\x82\x86\x41\x01h\x44\x06/field\x40\x06x-kept\x04kept".to_vec()
    } else {
        b"\x82\x86\xc0\xbf\xbe".to_vec()
    };
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

#[test]
fn a_parked_connection_keeps_what_is_in_its_tables_and_little_else() {
    in_simulation("parked", async || {
        let server = serve(Config::default(), answer)?;
        let pool = plimsoll_runtime::pool();
        let mut clients = Vec::new();
        let before = pool.budget().charged_by(Kind::Codec);
        for _ in 0..200 {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&field(1, true)).await?;
            assert_eq!(client.body(1).await?, b"kept");
            clients.push(client);
        }
        let busy = pool.budget().charged_by(Kind::Codec) - before;
        assert!(busy / 200 >= 8_192, "the tables of both sides, open: {} bytes each", busy / 200);
        sleep(Duration::from_secs(10)).await;
        let parked = pool.budget().charged_by(Kind::Codec) - before;
        // Twenty fields and less on both sides: the date, two of the response and three of the request.
        assert!(parked / 200 <= HTTP2_PARKED_BYTES as u64 + 512 + 64, "{} bytes each", parked / 200);
        for (at, client) in clients.iter_mut().enumerate() {
            for stream in [3, 5] {
                client.send(&field(stream, false)).await?;
                assert_eq!(client.body(stream).await?, b"kept", "connection {at} knows what it was told");
            }
        }
        sleep(Duration::from_secs(10)).await;
        let again = pool.budget().charged_by(Kind::Codec) - before;
        assert!(again <= parked + 32 * 1_024, "{again} bytes after {parked}");
        assert_eq!(server.counters.totals().window_reserved_bytes, 0);
        drop(clients);
        server.stop().await
    });
}

/// A POST whose body keeps to the windows.
struct Upload {
    client: Client,
    stream: u32,
    window: i64,
    connection_window: i64,
    /// The largest that the stream's window was.
    window_peak: i64,
}

impl Upload {
    async fn begin(address: core::net::SocketAddr) -> Result<Self> {
        let mut client = Client::connect(address, &[]).await?;
        // Our windows are known with the server's SETTINGS.
        let settings = client.next_of(SETTINGS).await?;
        let window = i64::from(settings.setting(INITIAL_WINDOW_SIZE).expect("it says its window"));
        client.send(&request(1, "POST", "/count", &[], 0)).await?;
        Ok(Self { client, stream: 1, window, connection_window: 65_535, window_peak: window })
    }

    /// Sends so many bytes, in frames as large as the windows allow.
    async fn send(&mut self, mut bytes: usize) -> Result<()> {
        while bytes > 0 {
            let room = self.window.min(self.connection_window).min(16_384);
            if room <= 0 {
                self.update().await?;
                continue;
            }
            let count = bytes.min(room as usize);
            self.client.send(&frame(DATA, 0, self.stream, &vec![b'u'; count])).await?;
            self.window -= count as i64;
            self.connection_window -= count as i64;
            bytes -= count;
        }
        Ok(())
    }

    async fn update(&mut self) -> Result<()> {
        let update = self.client.next_of(WINDOW_UPDATE).await?;
        let increment = i64::from(update.increment());
        if update.stream == 0 {
            self.connection_window += increment;
        } else {
            self.window += increment;
            self.window_peak = self.window_peak.max(self.window);
        }
        Ok(())
    }

    /// Ends the body; what the handler counted.
    async fn end(&mut self) -> Result<String> {
        self.client.send(&frame(DATA, END_STREAM, self.stream, &[])).await?;
        Ok(String::from_utf8_lossy(&self.client.body(self.stream).await?).into_owned())
    }
}

#[test]
fn windows_grow_for_bulk_and_are_reserved() {
    in_simulation("bulk", async || {
        let server = serve(Config::default(), answer)?;
        let mut small = Upload::begin(server.address).await?;
        small.send(40_000).await?;
        assert_eq!(small.end().await?, "40000");
        assert_eq!((small.window_peak, server.counters.totals().window_reserved_bytes), (16_384, 0));
        let mut bulk = Upload::begin(server.address).await?;
        bulk.send(1 << 20).await?;
        // A part of the line of 32 MiB.
        assert!(bulk.window_peak > 100_000, "{}", bulk.window_peak);
        assert_eq!(server.counters.totals().window_reserved_bytes, 114_688);
        assert_eq!(bulk.end().await?, (1 << 20).to_string());
        assert_eq!(server.counters.totals().window_reserved_bytes, 0, "given back with the stream");
        // One that goes away in the middle gives it back, too.
        let mut lost = Upload::begin(server.address).await?;
        lost.send(200_000).await?;
        assert_eq!(server.counters.totals().window_reserved_bytes, 114_688);
        drop((small, bulk, lost));
        sleep(Duration::from_millis(50)).await;
        assert_eq!(server.counters.totals().window_reserved_bytes, 0);
        server.stop().await
    });
}

#[test]
fn while_memory_is_short_a_window_is_told_when_it_is_used_up() {
    in_simulation("held windows", async || {
        let server = serve(Config::default(), answer)?;
        let pool = plimsoll_runtime::pool();
        let mut upload = Upload::begin(server.address).await?;
        upload.send(100).await?;
        sleep(Duration::from_millis(10)).await;
        let held = fill_to(Level::Orange).await;
        // Ten windows, one after the other: it takes long, and comes to its end.
        upload.send(160_000).await?;
        assert_eq!(upload.window_peak, 16_384, "it does not grow");
        assert!(pool.budget().level() >= Level::Orange, "all the while");
        drop(held);
        upload.send(10_000).await?;
        assert_eq!(upload.end().await?, "170100");
        drop(upload);
        server.stop().await
    });
}

#[test]
fn a_body_for_which_windows_are_held_is_not_waited_for_for_ever() {
    in_simulation("held windows, and silence", async || {
        let config = Config {
            body_timeout: Duration::from_secs(2),
            memory_timeout: Duration::from_secs(3),
            ..Config::default()
        };
        let server = serve(config, answer)?;
        let mut upload = Upload::begin(server.address).await?;
        let held = fill_to(Level::Orange).await;
        // Windows are held from now on.
        upload.send(100).await?;
        sleep(Duration::from_millis(4_500)).await;
        assert_eq!(server.shed(), 0, "its peer may not have been told that it may send");
        sleep(Duration::from_secs(1)).await;
        let totals = server.counters.totals();
        assert_eq!((totals.shed_total[Shed::Timeout as usize], server.shed()), (1, 1), "{totals:?}");
        assert_eq!(totals.exchanges_ended_total[ExchangeEnd::Timeout as usize], 1, "{totals:?}");
        drop((held, upload));
        server.stop().await
    });
}
