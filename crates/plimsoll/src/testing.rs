//! Tests of a service without sockets: a client and the real server in a simulated world.
//!
//! Routes, layers, limits and both codecs are those that serve; the kernel between client and server is simulated, time
//! passes at once, and the same seed gives the same run. For tests on every driver there is
//! [`#[plimsoll::test]`](crate::test), for thousands of worlds with faults [`sim::Sweep`](crate::sim::Sweep).
//!
//! ```
//! use plimsoll::http::{Request, Router, StatusCode};
//! use plimsoll::testing::Client;
//!
//! async fn hello(req: Request) -> String {
//!     format!("hello {}", req.param("name").unwrap_or("nobody"))
//! }
//!
//! let client = Client::new(Router::new().get("/hello/{name}", hello));
//! let answer = client.get("/hello/ada").send();
//! assert_eq!(answer.status(), StatusCode::OK);
//! assert_eq!(answer.text(), "hello ada");
//! assert_eq!(client.post("/hello/ada").send().status(), StatusCode::METHOD_NOT_ALLOWED);
//! client.finish();
//! ```

use core::fmt;
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::{Config, Method, Serve, Server, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{JoinHandle, MemoryLimit, Result, Runtime, Simulation, spawn, timeout};

/// The line of a client that is given none.
const MEMORY_MIB: u64 = 64;
/// A client waits so long for an answer, in the time of its world.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A client of one service, which is served in the client's own world.
pub struct Client {
    simulation: Simulation,
    address: SocketAddr,
    serving: JoinHandle<Result<()>>,
}

impl Client {
    /// Serves a router or a handler, on one worker with 64 MiB, in a world in which nothing fails.
    ///
    /// # Panics
    ///
    /// When the service cannot be served.
    pub fn new<A>(service: impl Serve<A>) -> Self {
        Self::builder().serve(service)
    }

    /// With other limits, in another world, or for a service that is made inside of the runtime.
    ///
    /// ```
    /// use plimsoll::http::Request;
    /// use plimsoll::sim::{Faults, SimConfig, World};
    /// use plimsoll::testing::Client;
    ///
    /// for seed in 0..20 {
    ///     let world = World::new(SimConfig::new(seed).with_faults(Faults::wild()));
    ///     let client = Client::builder().world(&world).serve(async |_req: Request| "whole");
    ///     // It may be lost, but not be cut short without a trace.
    ///     assert!(client.get("/").try_send().is_none_or(|answer| answer.text() == "whole"));
    /// }
    /// ```
    pub fn builder() -> ClientBuilder {
        ClientBuilder { world: None, config: Config::default(), workers: 1, memory: MemoryLimit::mib(MEMORY_MIB) }
    }

    /// A `GET` of a path, with its query.
    pub fn get(&self, path: &str) -> Call<'_> {
        self.request(Method::GET, path)
    }

    /// A `POST` to a path.
    pub fn post(&self, path: &str) -> Call<'_> {
        self.request(Method::POST, path)
    }

    /// A `PUT` to a path.
    pub fn put(&self, path: &str) -> Call<'_> {
        self.request(Method::PUT, path)
    }

    /// A `PATCH` of a path.
    pub fn patch(&self, path: &str) -> Call<'_> {
        self.request(Method::PATCH, path)
    }

    /// A `DELETE` of a path.
    pub fn delete(&self, path: &str) -> Call<'_> {
        self.request(Method::DELETE, path)
    }

    /// A request with any method. The path is sent as it is: encode what has to be encoded.
    pub fn request(&self, method: Method, path: &str) -> Call<'_> {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
        Call { client: self, is_head: method == Method::HEAD, head, body: Vec::new() }
    }

    /// Where the server listens, in the client's world: for clients of your own, such as of WebSockets.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs a future beside the server, in its world: a client of your own, or a [`sleep`](crate::sleep) that has time
    /// pass: `client.run(async { sleep(hour).await })`.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.simulation.block_on(future)
    }

    /// Stops the server, and looks whether anything was left behind. Without it, a client that is dropped just ends.
    ///
    /// # Panics
    ///
    /// When the server has failed or leaked.
    pub fn finish(self) {
        self.simulation.stop();
        let served = self.simulation.block_on(self.serving);
        served.expect("the server did not panic").expect("the server could serve");
        let world = self.simulation.world().clone();
        let report = self.simulation.shutdown();
        assert!(report.is_clean(), "the service has left something behind: {report}");
        let open = world.descriptors();
        assert!(open.is_empty(), "descriptors are left open: {open:?}");
    }
}

/// How a [`Client`] and its server are started: see [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing is started before `serve`"]
pub struct ClientBuilder {
    world: Option<World>,
    config: Config,
    workers: usize,
    memory: MemoryLimit,
}

impl ClientBuilder {
    /// Sets limits for the server.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets a world of yours, with its seed and its faults.
    pub fn world(mut self, world: &World) -> Self {
        self.world = Some(world.clone());
        self
    }

    /// Sets the number of workers.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the memory line of server and client together.
    pub fn memory(mut self, line: MemoryLimit) -> Self {
        self.memory = line;
        self
    }

    /// Serves a router or a handler.
    ///
    /// # Panics
    ///
    /// When it cannot be served.
    pub fn serve<A>(self, service: impl Serve<A>) -> Client {
        self.serve_with(|| service)
    }

    /// Serves what is made inside of the runtime, for one that needs it: a [`Hub`](crate::http::Hub), a task beside it.
    ///
    /// # Panics
    ///
    /// As [`serve`](Self::serve).
    pub fn serve_with<S: Serve<A>, A>(self, make: impl FnOnce() -> S) -> Client {
        let world = self.world.unwrap_or_else(|| World::new(SimConfig::new(1)));
        let builder = Runtime::builder().workers(self.workers).memory(self.memory);
        let simulation = builder.simulate(&world).expect("a simulated runtime starts");
        let (address, serving) = simulation.block_on(async {
            let server = Server::bind("127.0.0.1:80").expect("nobody else is in this world").config(self.config);
            (server.local_addr(), spawn(server.serve(make())).expect("there is room for the server"))
        });
        Client { simulation, address, serving }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A request on its way to be sent.
#[derive(Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Call<'a> {
    client: &'a Client,
    is_head: bool,
    head: String,
    body: Vec<u8>,
}

impl Call<'_> {
    /// Adds a field, unchecked: a test may send what is wrong.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        // Writing to a string does not fail.
        let _infallible = write!(self.head, "{name}: {value}\r\n");
        self
    }

    /// Sets the body, which is sent with its length.
    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    /// Sets a body of JSON, with its type. Feature `json`.
    ///
    /// # Panics
    ///
    /// For a value that cannot be JSON.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(self, value: &T) -> Self {
        self.header("Content-Type", "application/json").body(serde_json::to_vec(value).expect("it can be JSON"))
    }

    /// Sends it on a connection of its own; the answer, when all of it is there.
    ///
    /// # Panics
    ///
    /// When no whole answer comes within an hour of the world's time.
    pub fn send(self) -> Answer {
        self.try_send().expect("a whole answer comes")
    }

    /// The same for worlds with faults: `None` when no whole answer came.
    pub fn try_send(self) -> Option<Answer> {
        let Self { client, is_head, mut head, body } = self;
        let _infallible = write!(head, "Content-Length: {}\r\n\r\n", body.len());
        let request = [head.into_bytes(), body].concat();
        let exchange = async {
            let mut stream = TcpStream::connect(client.address).await.ok()?;
            // Who answers before all was sent may close: the answer is there all the same.
            let _sent = stream.send_bytes(&request).await;
            let mut received = Vec::new();
            while let Ok(Some(bytes)) = stream.recv().await {
                received.extend_from_slice(&bytes);
            }
            Answer::parse(&received, is_head)
        };
        client.run(timeout(ANSWER_TIMEOUT, exchange)).ok().flatten()
    }
}

/// What the server answered.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    /// The last answer among bytes from a connection that has ended; before it may be informational ones.
    fn parse(mut bytes: &[u8], is_head: bool) -> Option<Self> {
        loop {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
            let head = core::str::from_utf8(&bytes[..end]).ok()?;
            bytes = &bytes[end + 4..];
            let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
            let status = line.split(' ').nth(1)?.parse().ok()?;
            if StatusCode::is_informational(&status) {
                continue;
            }
            let fields = fields.split("\r\n").filter_map(|field| field.split_once(':'));
            let headers = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
            let mut answer = Self { status, headers, body: Vec::new() };
            if !is_head {
                answer.body = answer.decoded(bytes)?;
            }
            return Some(answer);
        }
    }

    /// Its body, if it is whole.
    fn decoded(&self, mut bytes: &[u8]) -> Option<Vec<u8>> {
        if let Some(length) = self.header("content-length") {
            let length: usize = length.parse().ok()?;
            return (bytes.len() == length).then(|| bytes.to_vec());
        }
        if self.header("transfer-encoding").is_none() {
            return Some(bytes.to_vec());
        }
        let mut body = Vec::new();
        loop {
            let end = bytes.windows(2).position(|two| two == b"\r\n")?;
            let size = usize::from_str_radix(core::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
            bytes = bytes.get(end + 2 + size + 2..)?;
        }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The value of the first field of a name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields in order, their names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as text.
    ///
    /// # Panics
    ///
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body as JSON. Feature `json`.
    ///
    /// # Panics
    ///
    /// When it is not JSON, or not a `T`; with the body in the message.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> T {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&self.body)),
        }
    }
}
