//! Builds a router from the table of operations. Each request passes through an endpoint.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::uri::PathAndQuery;
use axum::http::{self, StatusCode};
use axum::routing::{MethodFilter, MethodRouter, on};
use seqd_api::{ErrorCode, Method, Operation, Plan, Problem, Typed};

use super::bearer;
use super::context::{Arrival, Context, Exit};
use super::gate;
use super::negotiate::choose;
use super::request::{PathOf, Request, is_without_body};
use super::response::Response;
use crate::admission::{
    Audit, Sender, check, confirm, declared, has_place, hold_back, is_audited, lanes, recheck,
    while_let_in, without_names,
};
use crate::connections::ClientConnection;

/// Takes the sender of a request that the router has matched.
pub(super) fn sender_of(request: &mut http::Request<Body>) -> Sender {
    request.extensions_mut().remove().unwrap_or_default()
}

type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// A type-erased handler, so that its callers are compiled once instead of once per handler.
type Handler<S> = Arc<dyn Fn(Arc<S>, Request) -> Handling + Send + Sync>;

/// An operation with its handler.
pub(crate) struct Route<S> {
    pub(crate) operation: &'static Operation,
    handler: Handler<S>,
}

/// A request with its fields.
pub(crate) struct Call<T> {
    pub(crate) fields: T,
    request: Request,
}

impl<T> Deref for Call<T> {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl<S: Send + Sync + 'static> Route<S> {
    /// An operation whose handler reads the request and forms the response itself.
    pub(crate) fn raw<O, H, F>(_: O, handler: H) -> Self
    where
        O: Typed,
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        Self::of(O::ROW, handler)
    }

    /// Like [`Route::raw`], for a path that is not part of the API.
    pub(crate) fn of<H, F>(operation: &'static Operation, handler: H) -> Self
    where
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let boxed = move |state, request| -> Handling { Box::pin(handler(state, request)) };
        Self {
            operation,
            handler: Arc::new(boxed),
        }
    }

    /// An operation whose handler receives the fields and returns the JSON response.
    pub(crate) fn json<O, H, F, E>(operation: O, handler: H) -> Self
    where
        O: Typed<Request: Send> + Copy + 'static,
        H: Fn(Arc<S>, Call<O::Request>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O::Response, E>> + Send + 'static,
        E: Into<Problem>,
    {
        let handler = Arc::new(handler);
        Self::raw(operation, move |state, request| {
            let handler = Arc::clone(&handler);
            async move {
                let fields = request.decode()?;
                let answer = handler(state, Call { fields, request }).await;
                let answer = Response::json(&answer.map_err(Into::into)?)?;
                Ok(answer.with_status(success(O::ROW)))
            }
        })
    }

    /// Like [`Route::json`], for an operation with a dry run, which `plan` serves.
    pub(crate) fn planned<O, P, PF, H, F, E>(operation: O, plan: P, handler: H) -> Self
    where
        O: Typed<Request: Send> + Copy + 'static,
        P: Fn(Arc<S>, Call<O::Request>) -> PF + Send + Sync + 'static,
        PF: Future<Output = Result<Plan, E>> + Send + 'static,
        H: Fn(Arc<S>, Call<O::Request>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<O::Response, E>> + Send + 'static,
        E: Into<Problem> + 'static,
    {
        let (act, plan) = (Self::json(operation, handler), Arc::new(plan));
        Self::raw(operation, move |state, request| {
            let (act, plan) = (Arc::clone(&act.handler), Arc::clone(&plan));
            async move {
                if !request.is_dry_run {
                    return act(state, request).await;
                }
                let fields = request.decode()?;
                let planned = plan(state, Call { fields, request }).await;
                Response::json(&planned.map_err(Into::into)?)
            }
        })
    }
}

/// The status of a success.
fn success(operation: &Operation) -> StatusCode {
    let status = operation.statuses.first().copied().unwrap_or(200);
    StatusCode::from_u16(status).unwrap_or(StatusCode::OK)
}

pub(crate) fn build<S>(routes: Vec<Route<S>>, context: &Arc<Context>, state: &Arc<S>) -> Router
where
    S: Send + Sync + 'static,
{
    let mut paths: BTreeMap<&'static str, Vec<Route<S>>> = BTreeMap::new();
    for route in routes {
        paths.entry(route.operation.path).or_default().push(route);
    }
    let hint = if paths.contains_key("/docs") {
        "see GET /v1/cluster and GET /v1/id, or /docs for all paths"
    } else {
        "see GET /v1/cluster and GET /v1/id"
    };
    let mut router = Router::new();
    for (path, routes) in paths {
        router = router.route(path, methods(path, routes, context, state));
    }
    router.fallback(refusing(context, "unknown", move |request| {
        if let Err(problem) = gate::check_length(request.uri()) {
            return Response::problem(&problem);
        }
        let detail = format!("there is no path {}", request.uri().path());
        Response::problem(&Problem::new(ErrorCode::NotFound, detail).with_hint(hint))
    }))
}

/// The methods of one path, in the order of the table.
fn methods<S>(
    path: &'static str,
    routes: Vec<Route<S>>,
    context: &Arc<Context>,
    state: &Arc<S>,
) -> MethodRouter
where
    S: Send + Sync + 'static,
{
    let allocates = routes.iter().any(|route| route.operation.allocates);
    let mut methods = MethodRouter::new();
    let mut allow = Vec::new();
    let uses: Vec<String> = routes
        .iter()
        .map(|route| used_for(route.operation))
        .collect();
    let uses = uses.join("; ");
    for Route { operation, handler } in routes {
        let also = operation.allocates.then_some(Method::Post);
        for method in [Some(operation.method), also].into_iter().flatten() {
            let endpoint = Endpoint::new(context, state, operation, method);
            let handler = Arc::clone(&handler);
            let serve = move |mut request: http::Request<Body>| {
                let (endpoint, handler) = (Arc::clone(&endpoint), Arc::clone(&handler));
                async move {
                    let sender = sender_of(&mut request);
                    let handle = |state, mut read: Request| {
                        let serving = read.serving();
                        serving.scope(handler(state, read))
                    };
                    endpoint.serve(request, sender, None, handle).await
                }
            };
            methods = methods.on(filter(method), serve);
            allow.push(method.as_str());
        }
    }
    if allow.contains(&"GET") && !allocates {
        allow.push("HEAD");
    }
    let refuse = refusing_others(context, path, (allow.join(", "), Some(uses)));
    if allocates {
        methods = methods.merge(on(MethodFilter::HEAD, refuse.clone()));
    }
    methods.fallback(refuse)
}

/// Handles the methods that a path does not support: `allow` names the supported ones, `uses` their
/// effects.
pub(super) fn refusing_others(
    context: &Arc<Context>,
    path: &'static str,
    (allow, uses): (String, Option<String>),
) -> impl Fn(http::Request<Body>) -> Refusing + Clone + Send + Sync + 'static {
    refusing(context, path, move |request| {
        let detail = format!("{path} takes {allow}, not {}", request.method());
        let mut problem = Problem::new(ErrorCode::MethodNotAllowed, detail);
        if let Some(uses) = &uses {
            problem = problem.with_hint(uses.clone());
        }
        Response::problem(&problem).with_header("allow", &allow)
    })
}

/// A request and its meaning, such as `POST /v1/access creates an access token`.
fn used_for(operation: &Operation) -> String {
    let Operation {
        method,
        path,
        about,
        ..
    } = operation;
    let first = about.trim().split(". ").next().unwrap_or_default();
    let mut letters = first.trim_end_matches('.').chars();
    let lower = letters.next().map(|letter| letter.to_ascii_lowercase());
    let lower: String = lower.into_iter().chain(letters).collect();
    format!("{} {path} {lower}", method.as_str())
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

pub(super) type Refusing = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;

/// A handler that refuses every request, with the same headers and counters as any other.
fn refusing(
    context: &Arc<Context>,
    path: &'static str,
    refuse: impl Fn(&http::Request<Body>) -> Response + Clone + Send + Sync + 'static,
) -> impl Fn(http::Request<Body>) -> Refusing + Clone + Send + Sync + 'static {
    let exit = Arc::new(Exit::new(context, path, "other", None));
    move |mut request| {
        let arrival = Arrival::of(&exit.context, request.headers());
        let refused = refuse(&request).without_reading(request.headers());
        let exit = Arc::clone(&exit);
        let sender = sender_of(&mut request);
        Box::pin(async move {
            let is_busy = exit.context.admission.lanes.ask(sender.tenant());
            hold_back("", is_busy, sender.connection.as_ref()).await;
            exit.finish(refused, arrival)
        })
    }
}

/// The endpoint of one operation: the way in and out of its handler.
pub(crate) struct Endpoint<S> {
    exit: Exit,
    operation: &'static Operation,
    state: Arc<S>,
    has_path: bool,
    /// True for operations of the API. Requests about the node's health never wait.
    is_api: bool,
}

impl<S> Endpoint<S> {
    pub(crate) fn new(
        context: &Arc<Context>,
        state: &Arc<S>,
        operation: &'static Operation,
        method: Method,
    ) -> Arc<Endpoint<S>> {
        let usual = Some(success(operation).as_u16());
        Arc::new(Endpoint {
            exit: Exit::new(context, operation.path, method.as_str(), usual),
            operation,
            state: Arc::clone(state),
            has_path: operation.path.contains('{'),
            is_api: operation.path.starts_with("/v1/"),
        })
    }

    /// Serves a request. `name` is the name in its path, which is not percent-encoded; `None` if
    /// the router has matched the path, or the path has no parameters.
    pub(crate) async fn serve<H, F>(
        &self,
        request: http::Request<Body>,
        sender: Sender,
        name: Option<String>,
        handler: H,
    ) -> http::Response<Body>
    where
        H: FnOnce(Arc<S>, Request) -> F,
        F: Future<Output = Result<Response, Problem>>,
    {
        let context = &self.exit.context;
        let mut arrival = Arrival::of(context, request.headers());
        let caller = sender.caller;
        let audit = is_audited(self.operation).then(|| {
            let target = request.uri().path_and_query();
            let target = declared(target.map_or("", PathAndQuery::as_str), self.operation);
            let id = arrival.id.to_str().unwrap_or("-");
            let audit = Audit::of(request.method().as_str(), &target, &sender, id);
            match arrival.trace.ids() {
                Some(ids) => audit.with_trace(ids.trace, ids.parent),
                None => audit,
            }
        });
        let has_body = !is_without_body(request.headers());
        let (response, is_let_in) = match self.read(request, sender.clone(), name).await {
            Ok(request) => {
                let served = pin!(handler(Arc::clone(&self.state), request));
                let served = while_let_in(&context.admission.access, caller, served).await;
                (served, true)
            }
            Err(problem) => (Err(problem), false),
        };
        // Rare paths are boxed, because everything in the future of a request adds to the size of
        // every request.
        if let Err(problem) = &response {
            let is_busy = !is_let_in && context.admission.lanes.ask(sender.tenant());
            // A refusal that writes a line of the log is delayed, so that no caller fills the log.
            let is_delayed = is_busy || (!is_let_in && audit.is_some());
            let connection = sender.connection.as_ref();
            Box::pin(hold_back(&problem.code, is_delayed, connection)).await;
        }
        let response = response.unwrap_or_else(|problem| {
            let problem = without_names(&context.admission.access, caller, problem);
            bearer::response(&problem)
        });
        let response = if is_let_in || !has_body {
            response
        } else {
            response.closing()
        };
        if let Some(audit) = audit {
            audit.answered(response.status().as_u16());
        }
        let connection = sender.connection.as_ref();
        arrival.has_waited = connection.is_some_and(ClientConnection::has_waited);
        self.exit.finish(response, arrival)
    }

    async fn read(
        &self,
        request: http::Request<Body>,
        sender: Sender,
        name: Option<String>,
    ) -> Result<Request, Problem> {
        let path = match name {
            Some(name) => PathOf::Name(name),
            None if self.has_path => PathOf::Router,
            None => PathOf::None,
        };
        let context = &self.exit.context;
        gate::check_length(request.uri())?;
        context.hosts.check(&request)?;
        let admission = &context.admission;
        if self.is_api {
            admission.closing.check()?;
            has_place(&admission.access, &sender)?;
        }
        let takes_key = self.operation.takes_key;
        let (method, headers) = (request.method(), request.headers());
        gate::check(method, headers, takes_key, &context.cluster)?;
        gate::check_conditions(method, headers, self.operation.conditions)?;
        let media = choose(request.headers(), self.operation.media)?;
        let is_get = matches!(*request.method(), http::Method::GET | http::Method::HEAD);
        let (timeout, bodies) = (admission.timeout, &context.bodies);
        let need = self.operation.need;
        let permit = |caller, name: &str| check(&admission.access, caller, need, name);
        let mut request =
            Request::read((request, sender), media, path, timeout, bodies, permit).await?;
        // A change of the cluster must not rely on a token whose revocation only other nodes have
        // applied.
        if is_audited(self.operation) {
            let confirmed = confirm(&admission.access, request.caller, request.deadline);
            Box::pin(confirmed).await?;
        }
        // The token may have expired or been revoked while the body was read.
        recheck(&admission.access, request.caller)?;
        if request.is_dry_run && !self.operation.has_dry_run {
            let detail = "this request has no dry run";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        if is_get && !request.body.is_empty() {
            let detail = "a GET takes no body: put it into the query, or POST it";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
        if self.is_api
            && let Some(turn) = context.admission.lanes.enter(request.tenant)
        {
            let (connection, deadline) = (request.connection.as_ref(), request.deadline);
            request.slot = Box::pin(lanes::wait_for_slot(turn, connection, deadline)).await?;
            recheck(&admission.access, request.caller)?;
        }
        Ok(request)
    }
}
