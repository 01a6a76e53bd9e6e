//! A request is begun or refused within its time to wait, whenever it comes between two steps of the timers.

use core::time::Duration;

use plimsoll_http::{Config, Response, Server};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::{TIMER_STEP, TcpStream};
use plimsoll_runtime::{MemoryLimit, Runtime, Spawner, now, sleep, spawn};

/// What the simulated network and a turn of the server take.
const ON_THE_WAY: Duration = Duration::from_millis(10);
const PHASES: u32 = 16;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// One handler runs, and no other one may.
#[test]
fn requests_wait_no_longer_than_they_may() {
    let world = World::new(SimConfig::new(11));
    let simulation = Runtime::builder().memory(MemoryLimit::mib(4)).simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let config = Config { handlers_in_progress_max: Some(1), ..Config::default() };
        let timeout = config.admission_timeout;
        let server = Server::bind("127.0.0.1:0").expect("a free port").config(config);
        let address = server.local_addr();
        let handler = |_| async {
            sleep(Duration::from_secs(60)).await;
            Response::text("late")
        };
        let serving = spawn(server.serve(handler)).expect("there is room");
        let mut first = TcpStream::connect(address).await.expect("it is accepted");
        first.send_static(GET).await.expect("it is sent");
        for phase in 0..PHASES {
            let mut client = TcpStream::connect(address).await.expect("it is accepted");
            let asked = now();
            client.send_static(GET).await.expect("it is sent");
            let answer = client.recv().await.expect("no reset").expect("it is told");
            let took = now().since(asked);
            assert!(answer.starts_with(b"HTTP/1.1 503 "), "{}", answer.escape_ascii());
            assert!(took <= timeout + ON_THE_WAY, "in phase {phase} it waited for {took:?}");
            assert!(took + TIMER_STEP >= timeout, "in phase {phase} it waited for {took:?} only");
            sleep(TIMER_STEP / PHASES + Duration::from_millis(1)).await;
        }
        drop(first);
        Spawner::current().stop();
        serving.await.expect("no panic").expect("the server ends");
    });
    assert!(simulation.shutdown().is_clean());
}
