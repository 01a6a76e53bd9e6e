//! Sessions of tasks over loopback: what arrives, how it ends, and what fails.

#![forbid(unsafe_code)]

mod support;

use core::future::poll_fn;
use core::time::Duration;

use plimsoll_runtime::net::{Stream, TcpListener, TcpStream};
use plimsoll_runtime::{Errno, Error, JoinHandle, MemoryLimit, Result, Runtime, sleep, spawn, timeout};
use plimsoll_tls::{Acceptor, Connector, Provider, TlsConfig, TlsConfigBuilder, TlsError, Version, info};
use support::{Pair, both, client, pair, server};

fn run(scenario: impl AsyncFnOnce() -> Result<()>) {
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build().expect("it starts");
    let ended = runtime.block_on(async { timeout(Duration::from_secs(60), scenario()).await? });
    ended.expect("no call fails");
}

/// A server's end and a client's.
async fn connected(config: TlsConfig, client: &Connector, name: &str) -> Result<(Stream, Stream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let accepting: JoinHandle<Result<Stream>> =
        spawn(async move { Acceptor::new(config).accept(listener.accept().await?.0).await })?;
    let client = client.connect(name, TcpStream::connect(address).await?).await;
    let server = accepting.await.expect("no panic");
    Ok((server?, client?))
}

async fn read_all(stream: &mut Stream) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(lease) = stream.recv().await? {
        bytes.extend_from_slice(&lease);
    }
    Ok(bytes)
}

#[test]
fn what_is_sent_arrives_in_every_version_and_with_every_provider() {
    let known = pair(&["localhost"]);
    for provider in [
        #[cfg(feature = "aws-lc")]
        Provider::AwsLc,
        #[cfg(feature = "ring")]
        Provider::Ring,
    ] {
        for version in [Version::Tls12, Version::Tls13] {
            run(async || {
                let connector = Connector::builder().provider(provider).roots_pem(&known.certificate);
                let connector = connector.alpn([&b"http/1.1"[..]]).build().expect("good settings");
                for config in both(server(&known).provider(provider).max_version(version)) {
                    let (mut near, mut far) = connected(config, &connector, "localhost").await?;
                    let agreed = info(&near).expect("it is TLS");
                    assert_eq!((agreed.version, agreed.alpn.as_deref()), (Some(version), Some(&b"http/1.1"[..])));
                    assert_eq!(info(&far).expect("it is TLS").peer_certificates.len(), 1);
                    assert!(near.is_carried() && agreed.suite.is_some(), "{agreed:?}");
                    let large: Vec<u8> = (0..700_000_u32).map(|at| at as u8).collect();
                    let sent = large.clone();
                    let sending = spawn(async move {
                        near.send_bytes(&sent).await?;
                        near.shutdown_write().await?;
                        Ok::<_, Error>(near)
                    })?;
                    let read = read_all(&mut far).await?;
                    assert!(read == large, "{} bytes", read.len());
                    // The other half is open still.
                    let mut near = sending.await.expect("no panic")?;
                    assert_eq!(poll_fn(|cx| far.poll_write(cx, b"as polled")).await?, 9);
                    poll_fn(|cx| far.poll_flush(cx)).await?;
                    poll_fn(|cx| far.poll_shutdown(cx)).await?;
                    assert_eq!(read_all(&mut near).await?, b"as polled");
                }
                Ok(())
            });
        }
    }
}

#[test]
fn a_certificate_is_chosen_by_name_and_read_again() {
    run(async || {
        let [first, second, third] = [pair(&["a.test"]), pair(&["*.b.test", "c.test"]), pair(&["a.test"])];
        let dir = std::env::temp_dir().join(format!("plimsoll-tls-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let (chain, key) = (dir.join("chain.pem"), dir.join("key.pem"));
        let write = |pair: &Pair| {
            std::fs::write(&chain, &pair.certificate).expect("written");
            std::fs::write(&key, &pair.key).expect("written");
        };
        write(&first);
        let config = TlsConfig::builder().certificate_files(&chain, &key);
        let config = config.certificate_pem(&second.certificate, &second.key).build().expect("good settings");
        connected(config.clone(), &client(&first), "a.test").await?;
        connected(config.clone(), &client(&second), "x.b.test").await?;
        connected(config.clone(), &client(&second), "C.test").await?;
        let wrong = connected(config.clone(), &client(&second), "a.test").await;
        assert!(matches!(wrong, Err(Error::System(Errno::PROTO))), "{wrong:?}");
        write(&third);
        connected(config.clone(), &client(&first), "a.test").await?;
        config.reload().expect("both files are good");
        connected(config.clone(), &client(&third), "a.test").await?;
        std::fs::write(&key, &first.key).expect("written");
        let refused = config.reload().expect_err("the key is of the first");
        assert!(matches!(refused, TlsError::KeyDoesNotFit { .. }), "{refused}");
        connected(config, &client(&third), "a.test").await?;
        std::fs::remove_dir_all(&dir).expect("it is there");
        Ok(())
    });
}

#[test]
fn sessions_are_resumed_by_tickets() {
    run(async || {
        let known = pair(&["localhost"]);
        let settings =
            [Version::Tls12, Version::Tls13].map(|version| (version, both(server(&known).max_version(version))));
        for (version, config) in
            settings.into_iter().flat_map(|(version, both)| both.into_iter().map(move |one| (version, one)))
        {
            let connector = client(&known);
            for is_resumed in [false, true, true] {
                let (mut near, mut far) = connected(config.clone(), &connector, "localhost").await?;
                assert_eq!(info(&near).expect("it is TLS").is_resumed, is_resumed, "{version:?}");
                near.send_static(b"with a ticket before it").await?;
                assert!(far.recv().await?.is_some());
                config.reload().expect("tickets stay good");
            }
        }
        Ok(())
    });
}

#[test]
fn a_client_shows_its_certificate() {
    run(async || {
        let (known, user) = (pair(&["localhost"]), pair(&["user"]));
        for config in both(server(&known).client_roots_pem(&user.certificate)) {
            let shows = Connector::builder().roots_pem(&known.certificate);
            let shows = shows.certificate_pem(&user.certificate, &user.key).build().expect("good");
            let (near, _far) = connected(config.clone(), &shows, "localhost").await?;
            let agreed = info(&near).expect("it is TLS");
            assert_eq!(agreed.peer_certificates.len(), 1);
            let refused = connected(config, &client(&known), "localhost").await;
            assert!(matches!(refused, Err(Error::System(Errno::PROTO))), "{refused:?}");
        }
        Ok(())
    });
}

#[test]
fn a_ticket_is_good_while_the_same_is_asked_of_clients() {
    run(async || {
        let [known, user, other] = [pair(&["localhost"]), pair(&["user"]), pair(&["other"])];
        let roots = std::env::temp_dir().join(format!("plimsoll-roots-{}.pem", std::process::id()));
        std::fs::write(&roots, &user.certificate).expect("written");
        let config = server(&known).client_roots(&roots).build().expect("good settings");
        let shows = Connector::builder().roots_pem(&known.certificate).certificate_pem(&user.certificate, &user.key);
        let shows = shows.build().expect("good");
        for is_resumed in [false, true] {
            let (mut near, mut far) = connected(config.clone(), &shows, "localhost").await?;
            let agreed = info(&near).expect("it is TLS");
            assert_eq!((agreed.is_resumed, agreed.peer_certificates.len()), (is_resumed, 1));
            near.send_static(b"with a ticket before it").await?;
            assert!(far.recv().await?.is_some());
        }
        std::fs::write(&roots, &other.certificate).expect("written");
        config.reload().expect("it is a root");
        let refused = connected(config, &shows, "localhost").await;
        assert!(matches!(refused, Err(Error::System(Errno::PROTO))), "its certificate is looked at again: {refused:?}");
        std::fs::remove_file(&roots).expect("it is there");
        Ok(())
    });
}

/// Passes bytes on in pieces, and can stop in the middle.
async fn passed_on(pieces: usize, bytes_max: usize, config: TlsConfig, client: &Connector) -> Result<(Stream, Stream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let middle = TcpListener::bind("127.0.0.1:0")?;
    let (address, through) = (listener.local_addr(), middle.local_addr());
    let accepting: JoinHandle<Result<Stream>> =
        spawn(async move { Acceptor::new(config).accept(listener.accept().await?.0).await })?;
    drop(spawn(async move {
        let (mut from_client, mut to_client) = middle.accept().await?.0.into_split();
        let (mut from_server, mut to_server) = TcpStream::connect(address).await?.into_split();
        let back = spawn(async move {
            while let Some(lease) = from_server.recv().await? {
                to_client.send_all(lease).await?;
            }
            to_client.shutdown_write().await
        })?;
        let mut passed = 0;
        while let Some(lease) = from_client.recv().await? {
            for piece in lease.chunks(pieces) {
                let piece = &piece[..piece.len().min(bytes_max - passed)];
                passed += piece.len();
                to_server.send_bytes(piece).await?;
                sleep(Duration::from_micros(50)).await;
            }
            if passed == bytes_max {
                break;
            }
        }
        to_server.shutdown_write().await?;
        back.await.expect("no panic")
    })?);
    let client = client.connect("localhost", TcpStream::connect(through).await?).await;
    Ok((accepting.await.expect("no panic")?, client?))
}

#[test]
fn records_may_come_in_any_pieces() {
    let known = pair(&["localhost"]);
    let versions = [Version::Tls12, Version::Tls13].map(|version| both(server(&known).max_version(version)));
    for config in versions.into_iter().flatten() {
        run(async || {
            let (mut near, mut far) = passed_on(1, usize::MAX, config.clone(), &client(&known)).await?;
            for len in [1, 2, 300, 2_000] {
                let sent: Vec<u8> = (0..len).map(|at| at as u8).collect();
                far.send_bytes(&sent).await?;
                let mut read = Vec::new();
                while read.len() < len {
                    read.extend_from_slice(&near.recv().await?.expect("not ended"));
                }
                assert_eq!(read, sent);
            }
            far.shutdown_write().await?;
            assert!(near.recv().await?.is_none(), "close_notify");
            Ok(())
        });
    }
}

#[test]
fn an_end_without_close_notify_is_no_end() {
    run(async || {
        let known = pair(&["localhost"]);
        for config in both(server(&known)) {
            let (mut near, far) = connected(config, &client(&known), "localhost").await?;
            drop(far);
            let cut_short = near.recv().await;
            assert!(cut_short.is_err(), "{cut_short:?}");
        }
        Ok(())
    });
}

#[test]
fn what_is_no_handshake_fails_and_hears_why() {
    run(async || {
        let config = server(&pair(&["localhost"])).build().expect("good settings");
        for (says, hears) in [
            (&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], &b"HTTP/1.1 400 Bad Request\r\n"[..]),
            // Alerts: unexpected_message, decode_error.
            (&b"\x17\x03\x03\x00\x01a"[..], &b"\x15\x03\x03\x00\x02\x02\x0a"[..]),
            (&b"\x16\x03\x01\x00\x05\x01\x00\x00\x01a"[..], &b"\x15\x03\x03\x00\x02\x02\x32"[..]),
            (&b"\x00\x00\x00"[..], &b"\x15\x03\x03\x00\x02\x02"[..]),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let mut client = TcpStream::connect(listener.local_addr()).await?;
            client.send_bytes(says).await?;
            let accepted = Acceptor::new(config.clone()).accept(listener.accept().await?.0).await;
            assert!(matches!(accepted, Err(Error::System(Errno::PROTO))), "{accepted:?}");
            let mut heard = Vec::new();
            while let Ok(Some(lease)) = client.recv().await {
                heard.extend_from_slice(&lease);
            }
            assert!(heard.starts_with(hears), "{:?}: {}", says, String::from_utf8_lossy(&heard));
        }
        Ok(())
    });
}

#[test]
fn a_hello_that_is_too_long_or_never_whole_is_cut_off() {
    run(async || {
        let config = server(&pair(&["localhost"])).build().expect("good settings");
        // A ClientHello of 60,000 bytes, as it says, in records of 16,000.
        let mut long = vec![0x16, 3, 1, 0x3e, 0x80, 1, 0, 0xea, 0x60];
        long.resize(16_005, 0);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()).await?;
        client.send_bytes(&long).await?;
        client.send_bytes(&[&[0x16, 3, 1, 0x3e, 0x80][..], &long[5..]].concat()).await?;
        let accepted = Acceptor::new(config.clone()).accept(listener.accept().await?.0).await;
        assert!(matches!(accepted, Err(Error::System(Errno::PROTO))), "{accepted:?}");
        let acceptor = Acceptor::new(config).handshake_timeout(Duration::from_millis(20));
        let _silent = TcpStream::connect(listener.local_addr()).await?;
        let accepted = acceptor.accept(listener.accept().await?.0).await;
        assert!(matches!(accepted, Err(Error::TimedOut)), "{accepted:?}");
        Ok(())
    });
}

#[test]
fn what_is_wrong_with_settings_is_said() {
    let [known, other] = [pair(&["localhost"]), pair(&["localhost"])];
    let refused = |builder: TlsConfigBuilder| builder.build().expect_err("it is wrong").to_string();
    assert_eq!(refused(TlsConfig::builder()), "a server has a certificate");
    let wrong = TlsConfig::builder().certificate_pem(&known.certificate, &other.key);
    assert!(matches!(wrong.build(), Err(TlsError::KeyDoesNotFit { .. })));
    let broken = format!("# comment\n{}", known.certificate.replacen("MII", "MI$", 1));
    assert_eq!(refused(TlsConfig::builder().certificate_pem(broken, &known.key)), ":3: a byte that is not base64");
    assert_eq!(
        refused(TlsConfig::builder().certificate_pem(&known.certificate, &known.certificate)),
        ": no private key"
    );
    let none = refused(TlsConfig::builder().certificate_files("/nowhere/chain.pem", "/nowhere/key.pem"));
    assert!(none.starts_with("/nowhere/chain.pem: "), "{none}");
    let versions = server(&known).min_version(Version::Tls13).max_version(Version::Tls12);
    assert_eq!(refused(versions), "the lowest version is above the highest");
}
