//! Peers that send an urgent byte and do not read: what waits for them takes no thread, and nothing is left of them.

#![forbid(unsafe_code)]

mod support;

use core::time::Duration;

use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Error, MemoryLimit, metrics, sleep, spawn, timeout};
use socket2::SockRef;
use support::{real_runtimes, until};

static BODY: [u8; 8 << 20] = [b'x'; 8 << 20];

const PEERS: usize = 24;

/// What our side of a connection does meanwhile.
async fn serve(turn: usize, mut stream: TcpStream) -> plimsoll_runtime::Result<()> {
    match turn % 3 {
        0 => stream.send_static(&BODY).await,
        1 => stream.send_bytes(&BODY).await,
        _ => stream.recv().await.map(|_| ()),
    }
}

#[test]
fn an_urgent_byte_takes_no_thread() {
    for (choice, runtime) in real_runtimes("urgent", MemoryLimit::mib(32)) {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let mut peers = Vec::new();
            let mut tasks = Vec::new();
            for turn in 0..PEERS {
                let peer = std::net::TcpStream::connect(listener.local_addr()).expect("it listens");
                SockRef::from(&peer).send_out_of_band(b"!").expect("it is connected");
                let (stream, _) = listener.accept().await.expect("it is there");
                tasks.push(spawn(serve(turn, stream)).expect("the line is wide"));
                peers.push(peer);
            }
            sleep(Duration::from_millis(100)).await;
            for peer in &peers {
                SockRef::from(peer).send_out_of_band(b"!").expect("it is connected");
            }
            sleep(Duration::from_millis(300)).await;
            assert!(
                tasks.iter().all(|task| !task.is_finished()),
                "nobody reads, and nothing but an urgent byte was sent"
            );
            assert_eq!(support::kernel_threads(), 0, "{choice:?}");
            // Some are given up here, the others end with their peers.
            for task in tasks.iter().step_by(2) {
                task.abort();
            }
            drop(peers);
            for task in tasks {
                let ended = timeout(Duration::from_secs(60), task).await.expect("it ends");
                assert!(matches!(ended, Err(_) | Ok(Err(Error::System(_)) | Ok(()))), "{ended:?}");
            }
            // The listener is left.
            until("all is closed", || (metrics().fds, metrics().ops_in_flight) == (1, 0)).await;
        });
        let report = runtime.shutdown();
        assert!(report.is_clean(), "{choice:?}: {report}");
        assert_eq!(support::kernel_threads(), 0, "{choice:?}");
    }
}
