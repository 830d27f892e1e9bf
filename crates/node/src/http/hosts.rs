//! Checks the host name of a request.
//!
//! If the host name of a foreign page resolves to this node (DNS rebinding), the browser treats
//! page and node as the same origin. Only the host name in the request reveals the attack.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::header::HOST;
use axum::http::{self, HeaderMap};
use seqd_api::address::authority;
use seqd_api::{ErrorCode, Problem};
use seqd_guards::is_out;

/// The host names under which a node accepts requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    /// The listening address, if it is known.
    listen: Option<IpAddr>,
    names: Vec<String>,
    /// True if every name is accepted.
    is_open: bool,
}

impl Hosts {
    /// The names of a node that listens at `listen` and advertises the URL `advertise`; `more` are
    /// further names.
    pub(crate) fn new(listen: SocketAddr, advertise: &str, more: &[String]) -> Self {
        let advertised = authority(advertise).map(|authority| host_of(authority).to_owned());
        let names = more.iter().cloned().chain(advertised);
        Self {
            listen: Some(listen.ip()),
            names: names.collect(),
            is_open: false,
        }
    }

    /// Accepts every name, for a port that serves no secrets and changes nothing.
    pub(crate) fn any() -> Self {
        Self {
            is_open: true,
            ..Self::default()
        }
    }

    /// Refuses a request for another host. A request without a host does not come from a browser.
    pub(crate) fn check<B>(&self, request: &http::Request<B>) -> Result<(), Problem> {
        let in_target = request
            .uri()
            .authority()
            .map(|target| strict(target.as_str()));
        for host in [named(request.headers())?, in_target.transpose()?]
            .into_iter()
            .flatten()
        {
            if !self.is_open && !self.allows(host) {
                let host: String = host.chars().take(255).collect();
                let detail = format!("{host:?} is not a name of this node");
                return Err(
                    Problem::new(ErrorCode::UnknownHost, detail).with_hint(format!(
                        "use {}, or add the name to http.hosts",
                        self.names.first().map_or("localhost", String::as_str)
                    )),
                );
            }
        }
        Ok(())
    }

    fn allows(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_named = |name: &String| name.eq_ignore_ascii_case(host);
        if self.names.iter().any(is_named) {
            return true;
        }
        let in_brackets = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let address = in_brackets.unwrap_or(host);
        if let Ok(address) = address.parse::<IpAddr>() {
            // An address is not resolved by DNS, so a node that listens on all interfaces accepts
            // any address.
            let is_own = |own: IpAddr| own.is_unspecified() || own == address;
            return address.to_canonical().is_loopback() || self.listen.is_some_and(is_own);
        }
        let last = host.rsplit('.').next();
        last.is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
    }
}

/// Refuses an HTTP/1.1 request without a host, and any request whose host cannot be parsed (RFC
/// 9112, section 3.2). An HTTP/1.0 request may lack a host.
pub(super) fn check_form<B>(request: &http::Request<B>) -> Result<(), Problem> {
    let named = named(request.headers())?;
    if named.is_some() || request.version() < http::Version::HTTP_11 {
        return Ok(());
    }
    let detail = "an HTTP/1.1 request has a Host header, and this one has none";
    Err(Problem::new(ErrorCode::InvalidArgument, detail)
        .with_hint("send the header Host: HOST:PORT, as each HTTP library does"))
}

/// The host in the only `Host` header.
fn named(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let refuse = |detail: &str| Problem::new(ErrorCode::InvalidArgument, detail);
    let mut values = headers.get_all(HOST).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(refuse("a request has one Host header"));
    }
    let text = value
        .to_str()
        .map_err(|_| not_a_host("in bytes that are not ASCII"));
    text.and_then(strict).map(Some)
}

fn not_a_host(found: &str) -> Problem {
    let found: String = found.chars().take(255).collect();
    let detail = format!(
        "the request names the host {found:?}, which is not HOST or HOST:PORT: a name, an IPv4 \
         address, or an IPv6 address in brackets, and digits"
    );
    Problem::new(ErrorCode::InvalidArgument, detail)
}

/// Parses the host of an authority (RFC 3986, section 3.2). It may have no user part and only
/// characters of node names.
fn strict(authority: &str) -> Result<&str, Problem> {
    let host = host_of(authority);
    let port = &authority[host.len()..];
    let is_port = port.is_empty()
        || (port.strip_prefix(':')).is_some_and(|port| port.bytes().all(|it| it.is_ascii_digit()));
    let in_brackets = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_host = match in_brackets {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.bytes().all(is_plain),
    };
    if is_port && (is_host || is_out!(HostParsed)) {
        Ok(host)
    } else {
        Err(not_a_host(authority))
    }
}

/// A host without its port. An IPv6 address keeps its brackets.
fn host_of(authority: &str) -> &str {
    if authority.starts_with('[') {
        return authority
            .find(']')
            .map_or(authority, |end| &authority[..=end]);
    }
    authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(hosts: &Hosts, target: &str, named: &[&str]) -> Option<String> {
        let request = http::Request::get(target);
        let request = named
            .iter()
            .fold(request, |it, host| it.header(HOST, *host));
        let answer = hosts.check(&request.body(()).unwrap());
        answer.err().map(|problem| problem.code.into())
    }

    fn hosts(listen: &str) -> Hosts {
        let more = ["seqd.internal".to_owned()];
        Hosts::new(listen.parse().unwrap(), "http://n1.example:7400", &more)
    }

    #[test]
    fn the_own_names_and_loopback_are_allowed_with_and_without_a_port() {
        let hosts = hosts("127.0.0.1:7400");
        for host in [
            "localhost:7400",
            "LOCALHOST",
            "demo.localhost:1",
            "127.0.0.1:7400",
            "127.3.2.1",
            "[::1]:7400",
            "[::ffff:127.0.0.1]",
            "n1.example:7400",
            "N1.Example.",
            "seqd.internal",
        ] {
            assert_eq!(code(&hosts, "/v1/id", &[host]), None, "{host}");
        }
        assert_eq!(code(&hosts, "/v1/id", &[]), None);
        assert_eq!(code(&hosts, "http://localhost:7400/v1/id", &[]), None);
    }

    #[test]
    fn any_other_name_is_refused() {
        let hosts = hosts("127.0.0.1:7400");
        for host in [
            "evil.example",
            "evil.example:7400",
            "localhost.evil.example",
            "notlocalhost",
            "10.0.0.7:7400",
            "[2001:db8::1]:7400",
            "",
        ] {
            let refused = code(&hosts, "/v1/id", &[host]);
            assert_eq!(refused.as_deref(), Some("unknown-host"), "{host}");
        }
        let in_target = code(&hosts, "http://evil.example/v1/id", &["localhost"]);
        assert_eq!(in_target.as_deref(), Some("unknown-host"));
        let twice = code(&hosts, "/v1/id", &["localhost", "evil.example"]);
        assert_eq!(twice.as_deref(), Some("invalid-argument"));
    }

    #[test]
    fn a_host_that_only_contains_an_own_name_is_refused() {
        let hosts = hosts("127.0.0.1:7400");
        for host in [
            "127.0.0.1:22928,evil.example",
            "[::1].evil.example",
            "[::1]evil.example:7400",
            "[::1",
            "[evil.example]",
            "[::1]:7400:7400",
            "localhost:74x",
            "localhost:7400, evil.example",
            "evil.example@localhost",
            "evil.example,x.localhost",
            "localhost/evil",
            "::1",
        ] {
            let refused = code(&hosts, "/v1/id", &[host]);
            assert_eq!(
                refused.as_deref(),
                Some("invalid-argument"),
                "{host} was taken"
            );
        }
        for target in ["http://evil.example@localhost/", "http://localhost:/"] {
            let refused = code(&hosts, target, &["localhost"]);
            let expected = target.contains('@').then_some("invalid-argument");
            assert_eq!(refused.as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn http_1_1_needs_one_host_and_1_0_none() {
        let of = |version, hosts: &[&str]| {
            let request = http::Request::get("/").version(version);
            let request = hosts
                .iter()
                .fold(request, |it, host| it.header(HOST, *host));
            check_form(&request.body(()).unwrap()).is_ok()
        };
        assert!(of(http::Version::HTTP_11, &["localhost"]));
        assert!(of(http::Version::HTTP_10, &["localhost"]) && of(http::Version::HTTP_10, &[]));
        assert!(!of(http::Version::HTTP_11, &[]), "no host was taken");
        for version in [http::Version::HTTP_10, http::Version::HTTP_11] {
            assert!(!of(version, &["localhost", "localhost"]));
            assert!(!of(version, &["localhost,localhost"]));
        }
    }

    #[test]
    fn a_node_that_listens_everywhere_is_asked_by_any_address_but_not_by_any_name() {
        let hosts = hosts("0.0.0.0:7400");
        assert_eq!(code(&hosts, "/v1/id", &["10.0.0.7:7400"]), None);
        assert_eq!(code(&hosts, "/v1/id", &["[2001:db8::1]:7400"]), None);
        let name = code(&hosts, "/v1/id", &["evil.example"]);
        assert_eq!(name.as_deref(), Some("unknown-host"));
    }
}
