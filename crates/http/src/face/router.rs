//! Routes by method and path, for services without a framework.
//!
//! Each route's handler runs in a task cell of its own kind, exactly as with [`Server::serve`]: routing costs no
//! allocation, and handlers' futures are charged to the pool.

use ::core::fmt;
use ::core::future::{Future, poll_fn, ready};
use ::core::marker::PhantomData;
use ::core::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, StatusCode};
use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_runtime::Result;

use crate::exchange::handle::{ExchangeHandle, Responder};
use crate::exchange::into_response::IntoResponse;
use crate::exchange::paths::Paths;
use crate::exchange::response::Response;
use crate::face::files::{PARAM, ServeDir};
use crate::face::layer::{Layer, WithLayer};
use crate::face::request::Request;
use crate::face::serve::{Answering, Answers, Handler, OnlyHere, Serve, Serving};
use crate::face::server::{Handlers, Server};
use crate::worker::service::{Answered, NoRoom, Service};
use crate::worker::state::WorkerState;

/// Which handler answers which method and path.
///
/// A path is literal, but for parameters: `{name}` stands for one segment, `{*name}` at the end for all that is left. A
/// literal segment goes before a parameter, whatever the order of the calls. Paths are compared as they came:
/// percent-encoding is not decoded, and a slash at the end makes another path.
///
/// | request | answer |
/// |---|---|
/// | no route has the path | the [`fallback`](Self::fallback), else 404 |
/// | routes have the path, but not the method | 405 with `Allow` |
/// | `HEAD` where there is a `GET` route | that route's, without the body |
/// | `OPTIONS` without a route of its own | 204 with `Allow` |
///
/// A handler is an async function of a [`Request`], or of a [`Request`] and the state.
///
/// ```
/// use plimsoll_http::{Request, Response, Router, Server};
/// use plimsoll_runtime::{Runtime, Spawner, net::TcpStream};
///
/// #[derive(Clone)]
/// struct App { greeting: &'static str }
///
/// async fn user(req: Request, app: App) -> Response {
///     Response::text(format!("{} {}\n", app.greeting, req.param("id").unwrap_or("nobody")))
/// }
///
/// let admin = Router::new().get("/health", async |_req: Request| "ok\n");
/// let routes = Router::with_state(App { greeting: "hello" }).get("/users/{id}", user).nest("/admin", admin);
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let answer = runtime.block_on(async {
///     let server = Server::bind("127.0.0.1:0")?;
///     let address = server.local_addr();
///     let serving = plimsoll_runtime::spawn(server.serve(routes))?;
///     let mut client = TcpStream::connect(address).await?;
///     client.send_bytes(b"GET /users/7 HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await?;
///     let mut answer = Vec::new();
///     while let Some(bytes) = client.recv().await? {
///         answer.extend_from_slice(&bytes);
///     }
///     Spawner::current().stop();
///     serving.await.expect("the server ends")?;
///     Ok::<_, plimsoll_runtime::Error>(answer)
/// })?;
/// assert!(answer.ends_with(b"hello 7\n"));
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "routes are served by `Server::serve`"]
pub struct Router<S = ()> {
    state: S,
    entries: Vec<Entry>,
    fallback: Option<Box<dyn Plan>>,
    /// The router's own answers, with the layers around them; `None` while there are no layers.
    refusal: Option<Box<dyn Plan>>,
}

#[derive(Clone)]
struct Entry {
    method: Method,
    path: String,
    plan: Box<dyn Plan>,
    /// Always answered.
    reserved: bool,
}

impl Router {
    /// No routes yet, and no state.
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl Default for Router {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Clone + Send + 'static> Router<S> {
    /// No routes yet. Each worker has clones of the state, and each call of a handler that asks for it another: share
    /// what is large with an `Arc`.
    pub fn with_state(state: S) -> Self {
        Self { state, entries: Vec::new(), fallback: None, refusal: None }
    }

    /// Adds a route. What is wrong with it is said by [`check`](Self::check).
    pub fn route<A: 'static>(mut self, method: Method, path: &str, handler: impl Handler<S, A>) -> Self {
        let reserved = handler.is_reserved();
        let plan = Box::new(Planned { handler, state: self.state.clone(), arguments: PhantomData });
        self.entries.push(Entry { method, path: path.to_owned(), plan, reserved });
        self
    }

    /// Adds a route for `GET`, and for `HEAD` unless that has its own.
    pub fn get<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::GET, path, handler)
    }

    /// Adds a route for `POST`.
    pub fn post<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::POST, path, handler)
    }

    /// Adds a route for WebSockets, whose handler is one of [`Request::serve_websocket`] or
    /// [`Request::upgrade_websocket`]: they come as `GET` on HTTP/1.1, and as `CONNECT` on streams of HTTP/2 (RFC
    /// 8441).
    ///
    /// ```
    /// use plimsoll_http::{Error, Message, Request, Response, Router, WebSocketConfig, WebSocketRef};
    ///
    /// async fn echo(req: Request) -> Result<Response, Error> {
    ///     let config = WebSocketConfig::default();
    ///     req.serve_websocket(&config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message))
    /// }
    ///
    /// let routes = Router::new().websocket("/ws", echo);
    /// assert!(routes.check().is_ok());
    /// ```
    pub fn websocket<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::GET, path, handler.clone()).route(Method::CONNECT, path, handler)
    }

    /// Adds a route for `PUT`.
    pub fn put<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::PUT, path, handler)
    }

    /// Adds a route for `PATCH`.
    pub fn patch<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::PATCH, path, handler)
    }

    /// Adds a route for `DELETE`.
    pub fn delete<A: 'static>(self, path: &str, handler: impl Handler<S, A>) -> Self {
        self.route(Method::DELETE, path, handler)
    }

    /// Adds routes for the files of a directory under a prefix: a path, or a [`ServeDir`]. `/` is the prefix of all
    /// paths that no other route has.
    ///
    /// ```
    /// use plimsoll_http::{Request, Router};
    ///
    /// // GET /assets/css/site.css is public/css/site.css, and GET /assets/ is public/index.html.
    /// let routes = Router::new().get("/", async |_req: Request| "hello").files("/assets", "public");
    /// assert!(routes.check().is_ok());
    /// ```
    pub fn files(self, prefix: &str, dir: impl Into<ServeDir>) -> Self {
        let (prefix, files) = (prefix.trim_end_matches('/'), dir.into().by_param());
        let below = self.get(&format!("{prefix}/{{*{PARAM}}}"), files.clone());
        let below = below.get(&format!("{prefix}/"), files.clone());
        if prefix.is_empty() { below } else { below.get(prefix, files) }
    }

    /// Marks the path of the route that was added last, for all of its methods: it is always answered, as paths in
    /// [`Config::reserved_paths`](crate::Config::reserved_paths) are. Without a route before it, nothing is marked.
    ///
    /// ```
    /// use plimsoll_http::{Request, Router};
    ///
    /// let routes = Router::new().get("/health", async |_req: Request| "ok\n").reserved();
    /// assert!(routes.check().is_ok());
    /// ```
    pub fn reserved(mut self) -> Self {
        if let Some(entry) = self.entries.last_mut() {
            entry.reserved = true;
        }
        self
    }

    /// Adds all routes of another router under a prefix, such as `/api`: its `/` is the prefix itself. Its fallback is
    /// not taken over; its state stays with its handlers. Handlers see the whole path.
    pub fn nest<T>(mut self, prefix: &str, router: Router<T>) -> Self {
        let prefix = prefix.trim_end_matches('/');
        self.entries.extend(router.entries.into_iter().map(|entry| {
            let path = if entry.path == "/" && !prefix.is_empty() { "" } else { &*entry.path };
            Entry { path: format!("{prefix}{path}"), ..entry }
        }));
        self
    }

    /// What answers where no route has the path, instead of 404.
    pub fn fallback<A: 'static>(mut self, handler: impl Handler<S, A>) -> Self {
        self.fallback = Some(Box::new(Planned { handler, state: self.state.clone(), arguments: PhantomData }));
        self
    }

    /// Puts a layer, or a tuple of them, around everything that was added before: routes, also nested ones, the
    /// fallback, and the router's own 404, 405 and answers to OPTIONS. What is added later is not in it.
    ///
    /// Each request takes a box for the future inside; [`Layer::around`](crate::layer::Layer::around) does without, for
    /// one route.
    ///
    /// ```
    /// use plimsoll_http::layer::{CatchPanic, Log, RequestId};
    /// use plimsoll_http::{Request, Router};
    ///
    /// let layers = (RequestId::new(), Log::tracing(), CatchPanic);
    /// let routes = Router::new().get("/", async |_: Request| "ok\n").layer(layers);
    /// // Without an id, and without a line in the log:
    /// let routes = routes.get("/health", async |_: Request| "ok\n");
    /// assert!(routes.check().is_ok());
    /// ```
    pub fn layer(mut self, layer: impl Layer) -> Self {
        let around = |plan: Box<dyn Plan>| -> Box<dyn Plan> {
            let handler = layer.clone().around(Boxed(plan));
            Box::new(Planned { handler, state: (), arguments: PhantomData::<fn((WithLayer, Boxed))> })
        };
        self.entries = self.entries.into_iter().map(|entry| Entry { plan: around(entry.plan), ..entry }).collect();
        self.fallback = self.fallback.map(around);
        let own = || Box::new(Planned { handler: refuse, state: (), arguments: PhantomData::<fn((Request,))> });
        self.refusal = Some(around(self.refusal.unwrap_or_else(|| own())));
        self
    }

    /// Looks whether all routes can be there together. [`Server::serve`] does so too.
    ///
    /// # Errors
    ///
    /// The first route that cannot, and why.
    pub fn check(&self) -> Result<(), RouteError> {
        Table::new(&self.entries).map(drop)
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| (&entry.method, &entry.path))).finish()
    }
}

/// Why a route cannot be there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError {
    /// A path begins with a slash.
    NoSlash {
        /// The route's path.
        path: String,
    },
    /// The path is malformed, or a route that was added before could not be told from it.
    Path {
        /// The route's path.
        path: String,
        /// What is wrong with it.
        why: matchit::InsertError,
    },
    /// The method has a route at the same path already.
    Twice {
        /// The route's path.
        path: String,
        /// The route's method.
        method: Method,
    },
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlash { path } => write!(f, "the path `{path}` must begin with a slash"),
            Self::Path { path, why } => write!(f, "the path `{path}` cannot be added: {why}"),
            Self::Twice { path, method } => write!(f, "there are two routes for {method} {path}: leave one out"),
        }
    }
}

impl ::core::error::Error for RouteError {
    fn source(&self) -> Option<&(dyn ::core::error::Error + 'static)> {
        match self {
            Self::Path { why, .. } => Some(why),
            Self::NoSlash { .. } | Self::Twice { .. } => None,
        }
    }
}

impl Clone for Box<dyn Plan> {
    fn clone(&self) -> Self {
        self.copy()
    }
}

/// A handler on its way to its workers.
trait Plan: Send {
    fn copy(&self) -> Box<dyn Plan>;

    /// The route of one worker.
    fn service(&self) -> Box<dyn Service>;

    /// The same as what a layer is around.
    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + '_>>;
}

/// A handler of any type.
#[derive(Clone)]
struct Boxed(Box<dyn Plan>);

impl Handler<(), Self> for Boxed {
    fn call(&self, request: Request, (): &()) -> impl Future<Output: IntoResponse> {
        self.0.call(request)
    }
}

/// What the router answers itself.
async fn refuse(request: Request) -> Response {
    let not_found = || Response::new(StatusCode::NOT_FOUND);
    request.routes().map_or_else(not_found, |routes| routes.refusal(request.method(), request.path()))
}

struct Planned<H, S, A> {
    handler: H,
    state: S,
    /// A function's arguments are not part of what is sent.
    arguments: PhantomData<fn(A)>,
}

impl<H: Handler<S, A>, S: Clone + Send + 'static, A: 'static> Plan for Planned<H, S, A> {
    fn copy(&self) -> Box<dyn Plan> {
        Box::new(Self { handler: self.handler.clone(), state: self.state.clone(), arguments: PhantomData })
    }

    fn call(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + '_>> {
        Box::pin(async { self.handler.call(request, &self.state).await.into_response() })
    }

    fn service(&self) -> Box<dyn Service> {
        let shared = Rc::new((self.handler.clone(), self.state.clone()));
        Box::new(Handlers::new(move |request, mut responder: Responder| {
            let shared = Rc::clone(&shared);
            async move {
                let (handler, state) = &*shared;
                let mut response = handler.call(request, state).await.into_response();
                poll_fn(|cx| responder.poll_answer(cx, &mut response)).await;
            }
        }))
    }
}

/// The paths of a router.
struct Table {
    paths: matchit::Router<usize>,
    /// For each path its methods with the number of their route, and the value of `Allow`.
    methods: Vec<(Vec<(Method, usize)>, String)>,
    /// The marked ones of these.
    reserved: Vec<usize>,
}

impl Table {
    fn new(entries: &[Entry]) -> Result<Self, RouteError> {
        let mut seen: Vec<&str> = Vec::new();
        let mut table = Self { paths: matchit::Router::new(), methods: Vec::new(), reserved: Vec::new() };
        for (route, Entry { method, path, reserved, .. }) in entries.iter().enumerate() {
            if !path.starts_with('/') {
                return Err(RouteError::NoSlash { path: path.clone() });
            }
            let at = seen.iter().position(|known| known == path).unwrap_or(seen.len());
            if at == seen.len() {
                let inserted = table.paths.insert(path, at);
                inserted.map_err(|why| RouteError::Path { path: path.clone(), why })?;
                seen.push(path);
                table.methods.push((Vec::new(), String::new()));
            }
            let methods = &mut table.methods[at].0;
            if methods.iter().any(|(known, _)| known == method) {
                return Err(RouteError::Twice { path: path.clone(), method: method.clone() });
            }
            methods.push((method.clone(), route));
            if *reserved {
                table.reserved.push(at);
            }
        }
        for (methods, allow) in &mut table.methods {
            *allow = allowed(methods);
        }
        Ok(table)
    }

    fn at(&self, path: &str) -> Option<&(Vec<(Method, usize)>, String)> {
        self.paths.at(path).ok().map(|found| &self.methods[*found.value])
    }

    #[inline]
    fn find(&self, method: &Method, path: &str) -> Found {
        let Some((methods, _)) = self.at(path) else { return Found::Nothing };
        let find = |method: &Method| methods.iter().find(|(known, _)| known == method);
        let found = find(method).or_else(|| if method == Method::HEAD { find(&Method::GET) } else { None });
        found.map_or(Found::OtherMethod, |&(_, route)| Found::Route(route))
    }

    fn is_reserved(&self, path: &str) -> bool {
        self.paths.at(path).is_ok_and(|found| self.reserved.contains(found.value))
    }
}

/// What a router has for a request.
enum Found {
    /// The route of this number.
    Route(usize),
    /// The path alone.
    OtherMethod,
    Nothing,
}

impl Paths for Table {
    fn refusal(&self, method: &Method, path: &str) -> Response {
        match self.at(path) {
            Some((_, allow)) if method == Method::OPTIONS => {
                Response::new(StatusCode::NO_CONTENT).header("Allow", allow)
            }
            Some((_, allow)) => Response::new(StatusCode::METHOD_NOT_ALLOWED).header("Allow", allow),
            None => Response::new(StatusCode::NOT_FOUND),
        }
    }

    fn param<'a>(&'a self, path: &'a str, name: &str) -> Option<&'a str> {
        self.paths.at(path).ok()?.params.get(name)
    }

    #[cfg(feature = "serde")]
    fn params<'a>(&'a self, path: &'a str) -> Vec<(&'a str, &'a str)> {
        self.paths.at(path).map(|found| found.params.iter().collect()).unwrap_or_default()
    }
}

/// The value of `Allow`.
fn allowed(methods: &[(Method, usize)]) -> String {
    let has = |method: &Method| methods.iter().any(|(known, _)| known == method);
    let mut names: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
    if has(&Method::GET) && !has(&Method::HEAD) {
        names.push("HEAD");
    }
    if !has(&Method::OPTIONS) {
        names.push("OPTIONS");
    }
    names.join(", ")
}

/// The routes of one worker.
struct Routes {
    table: Rc<Table>,
    services: Vec<Box<dyn Service>>,
    fallback: Option<Box<dyn Service>>,
    refusal: Option<Box<dyn Service>>,
}

impl Service for Routes {
    fn has_marked(&self) -> bool {
        !self.table.reserved.is_empty()
    }

    fn is_marked(&self, path: &str) -> bool {
        self.table.is_reserved(path)
    }

    fn start(
        &mut self,
        worker: &Rc<WorkerState>,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<Answered, NoRoom> {
        worker.routes.get_or_init(|| self.table.clone());
        let service = match self.table.find(view.method(), view.path()) {
            Found::Route(route) => Some(&mut self.services[route]),
            Found::Nothing if self.fallback.is_some() => self.fallback.as_mut(),
            Found::Nothing | Found::OtherMethod => self.refusal.as_mut(),
        };
        if let Some(service) = service {
            return service.start(worker, view, slots, handle);
        }
        Responder::new(handle).answer(self.table.refusal(view.method(), view.path()));
        Ok(Answered::Ready)
    }
}

impl<S: Clone + Send + 'static> Serve<Router> for Router<S> {
    fn serve(self, server: Server, _only_here: OnlyHere) -> Serving {
        Serving::new(async move {
            self.check().map_err(|error| plimsoll_runtime::Error::Service(Box::new(error)))?;
            let service = move || {
                // Checked above.
                let table = Table::new(&self.entries).unwrap_or_else(|error| unreachable!("{error}"));
                let services = self.entries.iter().map(|entry| entry.plan.service()).collect();
                let service = |plan: &Option<Box<dyn Plan>>| plan.as_ref().map(|plan| plan.service());
                let (fallback, refusal) = (service(&self.fallback), service(&self.refusal));
                Routes { table: Rc::new(table), services, fallback, refusal }
            };
            server.serve_with(service).await
        })
    }

    fn answers(self, _only_here: OnlyHere) -> Result<Arc<dyn Answers>> {
        let table = Table::new(&self.entries).map_err(|error| plimsoll_runtime::Error::Service(Box::new(error)))?;
        let plans = Plans {
            routes: self.entries.into_iter().map(|entry| entry.plan).collect(),
            fallback: self.fallback,
            refusal: self.refusal,
        };
        Ok(Arc::new(SharedRoutes { table: Arc::new(table), plans: Mutex::new(plans) }))
    }
}

/// The routes of all workers, for a program that calls them itself.
struct SharedRoutes {
    table: Arc<Table>,
    /// Handlers are not `Sync`.
    plans: Mutex<Plans>,
}

struct Plans {
    routes: Vec<Box<dyn Plan>>,
    fallback: Option<Box<dyn Plan>>,
    refusal: Option<Box<dyn Plan>>,
}

impl SharedRoutes {
    /// A copy of what answers a request; `None` where that is the table.
    fn plan(&self, request: &Request) -> Option<Box<dyn Plan>> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        match self.table.find(request.method(), request.path()) {
            Found::Route(route) => Some(plans.routes[route].copy()),
            Found::Nothing if plans.fallback.is_some() => plans.fallback.clone(),
            Found::Nothing | Found::OtherMethod => plans.refusal.clone(),
        }
    }
}

impl Answers for SharedRoutes {
    fn answer(&self, request: Request) -> Answering {
        match self.plan(&request) {
            Some(plan) => Box::pin(async move { plan.call(request).await }),
            None => Box::pin(ready(self.table.refusal(request.method(), request.path()))),
        }
    }

    fn paths(&self) -> Option<Arc<dyn Paths>> {
        Some(self.table.clone())
    }
}

impl Request {
    /// What stands for a parameter of the route's path, percent-encoded as it came; `None` if the route has none of
    /// this name, or the server has no [`Router`].
    pub fn param(&self, name: &str) -> Option<&str> {
        self.routes()?.param(self.path(), name)
    }
}

#[cfg(test)]
mod tests;
