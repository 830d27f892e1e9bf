//! From a table of paths to a router, and the way that each request takes through its entry.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http;
use axum::routing::{MethodFilter, MethodRouter, on};
use seqd_api::routes::{self, Method};
use seqd_api::{ErrorCode, Need, Problem, Scope};
use seqd_state::Tenant;
use tokio::time::Instant;

use super::audit::Audit;
use super::bearer;
use super::context::{Context, Exit};
use super::gate;
use super::hold_back::hold_back;
use super::lanes;
use super::negotiate::{Media, choose};
use super::request::{Request, is_without_body};
use super::response::Response;
use super::serving::Serving;
use crate::access::{Access, Caller};
use crate::connections::ClientConnection;

/// Refuses a request on a connection in a reserved place, unless it is about the node's health or the
/// caller may use the reserve.
fn has_place(
    access: &Access,
    caller: Caller,
    request: &http::Request<Body>,
) -> Result<(), Problem> {
    let connection = request.extensions().get::<ClientConnection>();
    let Some(connection) = connection.filter(|connection| connection.is_reserved()) else {
        return Ok(());
    };
    if !request.uri().path().starts_with("/v1/")
        || access.may_use_reserve(caller, connection.is_first())
    {
        return Ok(());
    }
    let detail = "all connections of this node are being answered";
    let problem = Problem::new(ErrorCode::Overloaded, detail);
    Err(problem.with_hint("ask another node, or again on fewer connections"))
}

type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A handler behind a pointer: the code around it is compiled once, not once a handler.
type Handler<S> = Arc<dyn Fn(Arc<S>, Request) -> Handling + Send + Sync>;

/// One path with its handlers. Which methods it takes is in the contract's table; a test compares.
pub(crate) struct Path<S> {
    pub(crate) path: &'static str,
    media: &'static [Media],
    handlers: Vec<(Method, Handler<S>)>,
    /// Methods whose handlers answer a dry run.
    dry_runs: Vec<Method>,
    /// Methods whose handlers answer a request with an `Idempotency-Key` once.
    keyed: Vec<Method>,
}

impl<S> Path<S> {
    /// A path that answers in one of `media`, the first where the caller asks for none.
    pub(crate) fn new(path: &'static str, media: &'static [Media]) -> Path<S> {
        Path {
            path,
            media,
            handlers: Vec::new(),
            dry_runs: Vec::new(),
            keyed: Vec::new(),
        }
    }

    /// The same with a handler for `method` that answers a dry run, too.
    pub(crate) fn on_or_dry<H, F>(mut self, method: Method, handler: H) -> Self
    where
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        self.dry_runs.push(method);
        self.on(method, handler)
    }

    /// The same with a handler for `method` that answers a request with an `Idempotency-Key` once.
    pub(crate) fn on_keyed<H, F>(mut self, method: Method, handler: H) -> Self
    where
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        self.keyed.push(method);
        self.on(method, handler)
    }

    /// The same with a handler for `method`.
    pub(crate) fn on<H, F>(mut self, method: Method, handler: H) -> Self
    where
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let boxed = move |state, request| -> Handling { Box::pin(handler(state, request)) };
        self.handlers.push((method, Arc::new(boxed)));
        self
    }

    #[cfg(test)]
    pub(crate) fn methods(&self) -> Vec<Method> {
        self.handlers.iter().map(|(method, _)| *method).collect()
    }
}

pub(crate) fn build<S>(paths: Vec<Path<S>>, context: &Arc<Context>, state: &Arc<S>) -> Router
where
    S: Send + Sync + 'static,
{
    let mut router = Router::new();
    for path in paths {
        let name = path.path;
        router = router.route(name, methods(path, context, state));
    }
    router.fallback(refusing(context, "unknown", |request| {
        if let Err(problem) = gate::check_length(request.uri()) {
            return Response::problem(&problem);
        }
        let detail = format!("there is no path {}", request.uri().path());
        let hint = "GET /v1/cluster and /v1/id are good places to begin";
        Response::problem(&Problem::new(ErrorCode::NotFound, detail).with_hint(hint))
    }))
}

fn methods<S>(path: Path<S>, context: &Arc<Context>, state: &Arc<S>) -> MethodRouter
where
    S: Send + Sync + 'static,
{
    let allocates = routes::find(path.path).is_some_and(|route| route.allocates);
    let mut methods = MethodRouter::new();
    let mut allow = Vec::new();
    let Path {
        path,
        media,
        handlers,
        dry_runs,
        keyed,
    } = path;
    for (method, handler) in handlers {
        let extras = Extras {
            has_dry_run: dry_runs.contains(&method),
            takes_key: keyed.contains(&method),
        };
        let endpoint = Endpoint::new(context, state, path, method, media, extras);
        let serve = move |request: http::Request<Body>| {
            let (endpoint, handler) = (Arc::clone(&endpoint), Arc::clone(&handler));
            async move {
                endpoint
                    .serve(request, |state, mut read| {
                        let serving = Serving::of(&mut read);
                        serving.scope(handler(state, read))
                    })
                    .await
            }
        };
        methods = methods.on(filter(method), serve);
        allow.push(method.as_str());
    }
    if allow.contains(&"GET") && !allocates {
        allow.push("HEAD");
    }
    let allow = allow.join(", ");
    let refuse = refusing(context, path, move |request| {
        let detail = format!("{path} takes {allow}, not {}", request.method());
        let problem = Problem::new(ErrorCode::MethodNotAllowed, detail);
        Response::problem(&problem).with_header("allow", &allow)
    });
    if allocates {
        methods = methods.merge(on(MethodFilter::HEAD, refuse.clone()));
    }
    methods.fallback(refuse)
}

fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

type Refusing = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;

/// A handler that refuses whatever comes, with the same headers and counting as any other.
fn refusing(
    context: &Arc<Context>,
    path: &'static str,
    refuse: impl Fn(&http::Request<Body>) -> Response + Clone + Send + Sync + 'static,
) -> impl Fn(http::Request<Body>) -> Refusing + Clone + Send + Sync + 'static {
    let exit = Arc::new(Exit::new(context, path, "other"));
    move |request| {
        let started = Instant::now();
        let id = exit.context.request_ids.of(request.headers());
        let refused = refuse(&request).without_reading(request.headers());
        let exit = Arc::clone(&exit);
        let caller: Caller = request.extensions().get().copied().unwrap_or_default();
        let connection: Option<ClientConnection> = request.extensions().get().cloned();
        Box::pin(async move {
            let is_busy = exit
                .context
                .lanes
                .ask(tenant_of(caller, connection.as_ref()));
            hold_back("", is_busy, connection.as_ref()).await;
            exit.finish(refused, id, started)
        })
    }
}

/// What a handler can do beyond answering.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) has_dry_run: bool,
    /// Whether a request with an `Idempotency-Key` is answered once.
    pub(crate) takes_key: bool,
}

/// One path and method: the way in and out of its handler.
pub(crate) struct Endpoint<S> {
    exit: Exit,
    /// What its requests need of the caller's token.
    need: Need,
    state: Arc<S>,
    media: &'static [Media],
    has_path: bool,
    /// Whether it is none of those about the node's health, which wait for nothing.
    is_api: bool,
    extras: Extras,
}

impl<S> Endpoint<S> {
    pub(crate) fn new(
        context: &Arc<Context>,
        state: &Arc<S>,
        path: &'static str,
        method: Method,
        media: &'static [Media],
        extras: Extras,
    ) -> Arc<Endpoint<S>> {
        let need = routes::find(path).map(|route| route.need(method));
        Arc::new(Endpoint {
            exit: Exit::new(context, path, method.as_str()),
            need: need.unwrap_or(Need::Whole(Scope::Admin)),
            state: Arc::clone(state),
            media,
            has_path: path.contains('{'),
            is_api: path.starts_with("/v1/"),
            extras,
        })
    }

    pub(crate) async fn serve<H, F>(
        &self,
        request: http::Request<Body>,
        handler: H,
    ) -> http::Response<Body>
    where
        H: FnOnce(Arc<S>, Request) -> F,
        F: Future<Output = Result<Response, Problem>>,
    {
        let started = Instant::now();
        let context = &self.exit.context;
        let id = context.request_ids.of(request.headers());
        let caller: Caller = request.extensions().get().copied().unwrap_or_default();
        let audit = self.is_audited().then(|| Audit::of(&request, &id));
        let connection: Option<ClientConnection> = request.extensions().get().cloned();
        let has_body = !is_without_body(request.headers());
        let (response, is_let_in) = match self.read(request).await {
            Ok(request) => {
                let served = handler(Arc::clone(&self.state), request);
                let served = while_let_in(&context.access, caller, served).await;
                (served, true)
            }
            Err(problem) => (Err(problem), false),
        };
        // What few requests come to is in boxes: what is in the future of each request costs each of them.
        if let Err(problem) = &response {
            let tenant = tenant_of(caller, connection.as_ref());
            let is_busy = !is_let_in && context.lanes.ask(tenant);
            Box::pin(hold_back(&problem.code, is_busy, connection.as_ref())).await;
        }
        let response = response.unwrap_or_else(|problem| {
            let problem = bearer::without_names(&context.access, caller, problem);
            bearer::response(&problem)
        });
        let response = if is_let_in || !has_body {
            response
        } else {
            response.closing()
        };
        if let Some(audit) = audit {
            audit.answered(response.status());
        }
        self.exit.finish(response, id, started)
    }

    /// Whether the log has a line for each request: it changes the cluster, or reads all of it.
    fn is_audited(&self) -> bool {
        matches!(
            self.need,
            Need::Named(Scope::Admin) | Need::Whole(Scope::Admin)
        )
    }

    async fn read(&self, request: http::Request<Body>) -> Result<Request, Problem> {
        let context = &self.exit.context;
        gate::check_length(request.uri())?;
        context.hosts.check(&request)?;
        context.closing.check(request.uri().path())?;
        let caller = request.extensions().get().copied().unwrap_or_default();
        has_place(&context.access, caller, &request)?;
        let takes_key = self.extras.takes_key;
        let (method, headers) = (request.method(), request.headers());
        gate::check(method, headers, takes_key, &context.cluster)?;
        let media = choose(request.headers(), self.media)?;
        let is_get = matches!(*request.method(), http::Method::GET | http::Method::HEAD);
        let (timeout, bodies) = (context.timeout, &context.bodies);
        let permit = |caller, name: &str| bearer::check(&context.access, caller, self.need, name);
        let mut request =
            Request::read(request, media, self.has_path, timeout, bodies, permit).await?;
        // Once more: the body may have taken its time, and the token been revoked meanwhile. Who
        // changes the cluster may not do so by a token that another node knows to be revoked.
        if self.is_audited() {
            let confirmed = bearer::confirm(&context.access, request.caller, request.deadline);
            Box::pin(confirmed).await?;
        }
        permit(request.caller, request.name())?;
        if request.is_dry_run && !self.extras.has_dry_run {
            let detail = "this request has no dry run";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        if is_get && !request.body.is_empty() {
            let detail = "a GET takes no body: put it into the query, or POST it";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        if self.is_api
            && let Some(turn) = context.lanes.enter(request.tenant)
        {
            let (connection, deadline) = (request.connection.as_ref(), request.deadline);
            request.slot = Box::pin(lanes::come(turn, connection, deadline)).await?;
        }
        Ok(request)
    }
}

fn tenant_of(caller: Caller, connection: Option<&ClientConnection>) -> Tenant {
    caller.tenant(connection.and_then(ClientConnection::address))
}

/// Serves a request until its caller's token is revoked or expires. Its handler is dropped then, as
/// when the client leaves: a wait ends, and a claim of a lock is withdrawn.
async fn while_let_in(
    access: &Access,
    caller: Caller,
    served: impl Future<Output = Result<Response, Problem>>,
) -> Result<Response, Problem> {
    if !matches!(caller, Caller::Token(_)) {
        return served.await;
    }
    tokio::select! {
        biased;
        served = served => served,
        why = access.ended(caller) => Err(bearer::refusal(why)),
    }
}
