//! Routes of other systems, for their unchanged clients.
//!
//! These requests pass the checks of all others, but have none of the rules of this API for
//! methods, fields and bodies: unknown parameters are ignored, a form is read from the query or
//! from the body, and the responses are those of the other system.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{self, HeaderMap, Method};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use seqd_api::{ErrorCode, Operation, Problem};
use seqd_raft::Part;

use super::context::{Arrival, Context, Exit};
use super::gate;
use super::request::{is_without_body, path_of, receive};
use super::response::Response;
use super::router::{refusing_others, sender_of};
use crate::access::Caller;
use crate::admission::{Admission, Admitted, ProtocolRequest, Sender, hold_back};

const FORM: &str = "application/x-www-form-urlencoded";

/// A request to a route of another system.
pub(crate) struct Foreign {
    pub(crate) method: Method,
    /// The path as it was sent.
    pub(crate) path: String,
    /// The parameters of the path, decoded, in order.
    pub(crate) params: Vec<String>,
    /// The query, and the form in the body. Fields are decoded when they are used, because a form
    /// has room for 30,000.
    forms: [Bytes; 2],
    headers: HeaderMap,
    route: &'static str,
    sender: Sender,
    admission: Admission,
    _held: Option<Part>,
}

/// The methods of these routes. OPTIONS and TRACE take no value in the other systems either.
const METHODS: MethodFilter = MethodFilter::GET
    .or(MethodFilter::HEAD)
    .or(MethodFilter::POST)
    .or(MethodFilter::PUT)
    .or(MethodFilter::PATCH)
    .or(MethodFilter::DELETE);

/// Adds a route that takes every method with a meaning of its own.
pub(crate) fn with_route<S, H, F>(
    router: axum::Router,
    route: &'static str,
    (context, state): (&Arc<Context>, &Arc<S>),
    handler: H,
) -> axum::Router
where
    S: Send + Sync + 'static,
    H: Fn(Arc<S>, Foreign) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let exit = Arc::new(Exit::new(context, route, "any", Some(200)));
    let state = Arc::clone(state);
    let serve = move |mut request: http::Request<Body>| {
        let (exit, state, handler) = (Arc::clone(&exit), Arc::clone(&state), handler.clone());
        async move {
            let arrival = Arrival::of(&exit.context, request.headers());
            let sender = sender_of(&mut request);
            let response = match Foreign::read(request, sender, route, &exit.context).await {
                Ok(foreign) => handler(state, foreign).await,
                Err(problem) => Response::problem(&problem).closing(),
            };
            exit.finish(response, arrival)
        }
    };
    let allow = "GET, HEAD, POST, PUT, PATCH, DELETE".to_owned();
    let refuse = refusing_others(context, route, (allow, None));
    router.route(route, on(METHODS, serve).fallback(refuse))
}

impl Foreign {
    async fn read(
        request: http::Request<Body>,
        sender: Sender,
        route: &'static str,
        context: &Context,
    ) -> Result<Foreign, Problem> {
        let connection = sender.connection.clone();
        let is_busy = context.admission.lanes.ask(sender.tenant());
        let read = Self::checked(request, sender, route, context).await;
        if let Err(problem) = &read {
            hold_back(&problem.code, is_busy, connection.as_ref()).await;
        }
        read
    }

    async fn checked(
        request: http::Request<Body>,
        sender: Sender,
        route: &'static str,
        context: &Context,
    ) -> Result<Foreign, Problem> {
        gate::check_length(request.uri())?;
        context.hosts.check(&request)?;
        // A GET may take values here, so a page of another site may not send one either.
        gate::check(&Method::POST, request.headers(), false, &context.cluster)?;
        gate::check_site(request.headers())?;
        let (mut parts, body) = request.into_parts();
        let query = parts.uri.query().unwrap_or_default();
        let mut forms = [Bytes::copy_from_slice(query.as_bytes()), Bytes::new()];
        let mut held = None;
        if !is_without_body(&parts.headers) {
            let begun = context.bodies.begin(sender.tenant());
            let _pause = sender
                .connection
                .as_ref()
                .map(|connection| connection.pause());
            let (bytes, part) = receive(&parts.headers, body, begun).await?;
            held = part;
            let kind = parts.headers.get(CONTENT_TYPE);
            let kind = kind.map_or(&b""[..], |kind| kind.as_bytes());
            if kind.to_ascii_lowercase().starts_with(FORM.as_bytes()) {
                forms[1] = bytes;
            }
        }
        Ok(Foreign {
            params: path_of(&mut parts).await?,
            path: parts.uri.path().to_owned(),
            method: parts.method,
            forms,
            headers: parts.headers,
            route,
            sender,
            admission: context.admission.clone(),
            _held: held,
        })
    }

    /// The first value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        self.forms.iter().find_map(|form| value_of(form, name))
    }

    /// The first parameter of the path.
    pub(crate) fn param(&self) -> &str {
        self.params.first().map_or("", String::as_str)
    }

    pub(crate) fn accept(&self) -> &str {
        let accept = self.headers.get(ACCEPT);
        accept
            .and_then(|accept| accept.to_str().ok())
            .unwrap_or_default()
    }

    pub(crate) fn caller(&self) -> Caller {
        self.sender.caller
    }

    /// Waits before a refusal with this code, as for other requests.
    pub(crate) async fn hold_back(&self, code: ErrorCode) {
        let connection = self.sender.connection.as_ref();
        hold_back(code.as_str(), false, connection).await;
    }

    /// Serves the request with the checks and limits of `operation`.
    ///
    /// # Errors
    /// The refusal, or the error of `work`.
    pub(crate) async fn serve<T, E, F>(
        &self,
        operation: &'static Operation,
        name: &str,
        work: impl FnOnce(Admitted) -> F,
    ) -> Result<T, Problem>
    where
        E: Into<Problem>,
        F: Future<Output = Result<T, E>>,
    {
        let asked = ProtocolRequest {
            operation,
            name,
            logged: ("compat", self.route),
        };
        self.admission.serve(asked, &self.sender, work).await
    }
}

fn value_of<'form>(form: &'form [u8], name: &str) -> Option<Cow<'form, str>> {
    let found = form_urlencoded::parse(form).find(|(field, _)| field == name);
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_form_are_decoded() {
        let form = "a=1&&b=x+y%2Bz&c&d=%e4%BD%A0&e=%&f=%4&a=2&g=%ff";
        let value = |name| value_of(form.as_bytes(), name);
        for (name, expected) in [
            ("a", "1"),
            ("b", "x y+z"),
            ("c", ""),
            ("d", "\u{4f60}"),
            ("e", "%"),
            ("f", "%4"),
            ("g", "\u{fffd}"),
        ] {
            assert_eq!(value(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(value("h"), None);
    }
}
