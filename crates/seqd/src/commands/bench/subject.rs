//! The targets of a measurement: the endpoints, their requests, and the promised order of numbers.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use seqd_client::api::{ErrorCode, Mode, Sequence, SequenceSpec, paths};
use seqd_client::{Client, Options, parse_endpoints};

use super::{LoadArgs, UrlArgs};
use crate::arguments::millis;
use crate::bench::{Action, Connector, LockCycle, Prepared, Read, Server};
use crate::failure::Failure;
use crate::session::Session;

/// The timeout of a request by default, as for other commands.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// The TTL of a measured lock: a lock whose release is lost is free again after it.
const LOCK_TTL_MS: u64 = 10_000;

/// The kind of a measurement.
pub(super) enum Kind {
    Ids {
        count: u64,
        layout: Option<String>,
    },
    Sequence {
        mode: Mode,
        count: u64,
        name: Option<String>,
    },
    Locks {
        names: u64,
    },
    Url(Box<UrlArgs>),
}

/// One target.
pub(super) struct Subject {
    pub(super) label: String,
    pub(super) action: Action,
    pub(super) connector: Connector,
    pub(super) servers: Vec<Server>,
    /// The distance of two neighbouring numbers, and whether their order is promised; or the reason
    /// why numbers are not checked.
    pub(super) check: Result<(i64, bool), String>,
}

/// Sequences that were created for a measurement.
#[derive(Default)]
pub(super) struct Lent(Vec<(Client, String)>);

impl Lent {
    /// Deletes the sequences. A failure leaves the sequence, and the user gets the command.
    pub(super) async fn delete(self, session: &Session) {
        for (client, name) in self.0 {
            if let Err(error) = client.delete_sequence(&name).await {
                session.note(&format!(
                    "sequence {name} was not deleted: {error}; `seqd seq delete {name} --yes` \
                     deletes it"
                ));
            }
        }
    }
}

impl Kind {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Ids { .. } => "ids",
            Self::Sequence { mode, .. } => command_of(*mode),
            Self::Locks { .. } => "locks",
            Self::Url(_) => "url",
        }
    }

    /// Prepares the target: the endpoints of the session, or `vs`.
    pub(super) async fn subject(
        &self,
        vs: Option<&str>,
        load: &LoadArgs,
        session: &Session,
        lent: &mut Lent,
    ) -> Result<Subject, Failure> {
        let subject = match self {
            Self::Url(args) => url(args, vs, &session.options)?,
            _ => self.of_cluster(vs, session, lent).await?,
        };
        Ok(Subject {
            check: if load.no_check {
                Err("--no-check is given".to_owned())
            } else {
                subject.check
            },
            ..subject
        })
    }

    async fn of_cluster(
        &self,
        vs: Option<&str>,
        session: &Session,
        lent: &mut Lent,
    ) -> Result<Subject, Failure> {
        let mut options = session.options.clone();
        if let Some(vs) = vs {
            options.endpoints = parse_endpoints(vs, options.tls.is_given())?;
        }
        let labels: Vec<String> = options.endpoints.iter().map(ToString::to_string).collect();
        let servers = options.endpoints.iter();
        let servers = servers.map(|endpoint| Server::of_url(&uri(endpoint.as_str())?));
        let servers: Vec<Server> = servers.collect::<Result<_, _>>()?;
        let headers = headers(&options)?;
        let (action, check) = match self {
            Self::Ids { count, layout } => {
                (ids(*count, layout.as_deref(), headers)?, Ok((1, false)))
            }
            Self::Sequence { mode, count, name } => {
                let client = Client::new(options.clone())?;
                let sequence = sequence(*mode, name.as_deref(), client, lent).await?;
                let check = check_of(&sequence);
                (next(&sequence.name, *count, headers)?, check)
            }
            Self::Locks { names } => (locks(*names, headers, &options)?, Ok((1, true))),
            Self::Url(_) => return Err(Failure::failed("a URL is not a cluster")),
        };
        Ok(Subject {
            label: labels.join(","),
            action,
            connector: connector(&options, &servers)?,
            servers,
            check,
        })
    }
}

const fn command_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Segment => "seq",
        Mode::Strict => "strict",
        Mode::Ordered => "ordered",
    }
}

fn connector(options: &Options, servers: &[Server]) -> Result<Connector, Failure> {
    let any_https = servers.iter().any(|server| server.is_https);
    Connector::new(&options.tls, any_https, options.timeout.unwrap_or(TIMEOUT))
}

fn uri(text: &str) -> Result<Uri, Failure> {
    text.parse()
        .map_err(|error| Failure::usage(format!("{text} is not a URL: {error}")))
}

/// The headers of every request.
fn common_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let agent = concat!("seqd-bench/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    headers
}

/// The headers of every request to a cluster.
fn headers(options: &Options) -> Result<HeaderMap, Failure> {
    let mut headers = common_headers();
    if let Some(token) = &options.token {
        let value = HeaderValue::try_from(format!("Bearer {}", token.secret()));
        let mut value = value.map_err(|error| Failure::usage(error.to_string()))?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn accepting(mut headers: HeaderMap, form: &'static str) -> HeaderMap {
    headers.insert(header::ACCEPT, HeaderValue::from_static(form));
    headers
}

fn ids(count: u64, layout: Option<&str>, headers: HeaderMap) -> Result<Action, Failure> {
    let mut target = if count == 1 {
        "/v1/id?".to_owned()
    } else {
        format!("/v1/ids?count={count}&")
    };
    if let Some(layout) = layout {
        target.push_str(&paths::fill("layout={name}", layout));
    }
    let target = uri(target.trim_end_matches(['?', '&']))?;
    let headers = accepting(headers, "text/plain");
    let request = Prepared::new(Method::GET, target, headers, Bytes::new());
    Ok(Action::Once(request, Read::Text))
}

fn next(name: &str, count: u64, headers: HeaderMap) -> Result<Action, Failure> {
    let path = paths::fill("/v1/sequences/{name}/next", name);
    // One value is shortest as text, many are as ranges.
    let (target, form, read) = if count == 1 {
        (path, "text/plain", Read::Text)
    } else {
        (
            format!("{path}?count={count}"),
            "application/json",
            Read::Ranges,
        )
    };
    let headers = accepting(headers, form);
    let request = Prepared::new(Method::POST, uri(&target)?, headers, Bytes::new());
    Ok(Action::Once(request, read))
}

/// Returns the sequence with this name, or creates one.
async fn sequence(
    mode: Mode,
    name: Option<&str>,
    client: Client,
    lent: &mut Lent,
) -> Result<Sequence, Failure> {
    let Some(name) = name else {
        return lent_sequence(mode, client, lent).await;
    };
    let sequence = client.sequence(name).await?;
    if sequence.mode != mode {
        let fitting = command_of(sequence.mode);
        let detail = format!(
            "sequence {name} has mode {}, and `seqd bench {}` measures another mode",
            sequence.mode.as_str(),
            command_of(mode)
        );
        return Err(Failure::usage(detail).with_hint(format!("seqd bench {fitting} --name {name}")));
    }
    Ok(sequence)
}

fn check_of(sequence: &Sequence) -> Result<(i64, bool), String> {
    if sequence.cycle {
        return Err(format!(
            "sequence {} cycles, so its values repeat",
            sequence.name
        ));
    }
    Ok((sequence.increment, sequence.mode != Mode::Segment))
}

/// Creates a sequence that is deleted at the end. Its name is the same in each measurement, because
/// a deleted sequence keeps a record. The name of a sequence that exists is left alone: it belongs
/// to another measurement, or to the other target of this one.
async fn lent_sequence(mode: Mode, client: Client, lent: &mut Lent) -> Result<Sequence, Failure> {
    let spec = SequenceSpec {
        mode: Some(mode),
        // A restored cluster creates none without it. Of a deleted sequence, it is the former one,
        // and the values continue.
        start: Some(1),
        description: Some("created by seqd bench; can be deleted".to_owned()),
        ..SequenceSpec::default()
    };
    let mut number = 1;
    loop {
        let name = lent_name(mode, number);
        match client.create_sequence(&name, &spec).await {
            Ok(created) if created.new => {
                lent.0.push((client, name));
                return Ok(created.sequence);
            }
            Ok(_) => {}
            Err(seqd_client::Error::Problem(problem))
                if problem.error_code() == Some(ErrorCode::AlreadyExists) => {}
            Err(error) => return Err(error.into()),
        }
        if number == MOST_LENT {
            let detail = format!("all names from {} to {name} are in use", lent_name(mode, 1));
            let hint = format!("seqd seq list --prefix {}", lent_name(mode, 1));
            return Err(Failure::failed(detail).with_hint(hint));
        }
        number += 1;
    }
}

/// Measurements of one mode at the same time.
const MOST_LENT: u32 = 100;

fn lent_name(mode: Mode, number: u32) -> String {
    match number {
        1 => format!("bench-{}", command_of(mode)),
        _ => format!("bench-{}-{number}", command_of(mode)),
    }
}

/// A prefix of names of locks that no other measurement uses.
fn drawn_name() -> Result<String, Failure> {
    let mut random = [0_u8; 8];
    let drawn = getrandom::fill(&mut random);
    drawn.map_err(|error| Failure::failed(format!("cannot draw a name: {error}")))?;
    Ok(format!("bench-{:016x}", u64::from_be_bytes(random)))
}

fn locks(names: u64, mut headers: HeaderMap, options: &Options) -> Result<Action, Failure> {
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    // The response must arrive before the timeout of the request.
    let wait = options.timeout.unwrap_or(TIMEOUT) / 2;
    let wait_ms = millis(wait);
    let times = [LOCK_TTL_MS, wait_ms.min(LOCK_TTL_MS)];
    let cycle = LockCycle::new(&drawn_name()?, names, headers, times);
    let cycle = cycle.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Action::Cycle(cycle))
}

fn url(args: &UrlArgs, vs: Option<&str>, options: &Options) -> Result<Subject, Failure> {
    let url = vs.map_or_else(|| Ok(args.url.clone()), uri)?;
    let server = Server::of_url(&url)?;
    let mut headers = common_headers();
    if args.body.is_some() {
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
    }
    for text in &args.headers {
        let (name, value) = given_header(text)?;
        headers.insert(name, value);
    }
    let (default, body) = match &args.body {
        None => (Method::GET, Bytes::new()),
        Some(body) => (Method::POST, Bytes::from(body.clone())),
    };
    let method = args.method.clone().unwrap_or(default);
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let request = Prepared::new(method, uri(target)?, headers, body);
    let read = args.json_field.clone().map_or(Read::Text, Read::Json);
    let servers = vec![server];
    Ok(Subject {
        label: url.to_string(),
        action: Action::Once(request, read),
        connector: connector(options, &servers)?,
        servers,
        check: Ok((1, args.order)),
    })
}

fn given_header(text: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let wrong = || {
        Failure::usage(format!(
            "--header {text:?} is not a header: it takes NAME: VALUE, such as \"x-tenant: a\""
        ))
    };
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let (name, value) = given_header("X-Tenant: a b").unwrap();
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("x-tenant", "a b")
        );
        for wrong in ["x", "a b: c", ": c", "a: b\nc"] {
            assert!(given_header(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_locks_differ() {
        assert_ne!(drawn_name().unwrap(), drawn_name().unwrap());
    }
}
