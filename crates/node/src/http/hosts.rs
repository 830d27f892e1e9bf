//! Which host a request may name.
//!
//! A page whose own name is made to lead to this node (DNS rebinding) is of the same origin for its
//! browser: only the name that it asks for tells it from the node's own.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::HOST;
use axum::http::{self, HeaderMap};
use seqd_api::address::authority;
use seqd_api::{ErrorCode, Problem};

/// The names under which a node is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    /// The address that is listened on, if it is known.
    listen: Option<IpAddr>,
    names: Vec<String>,
}

impl Hosts {
    /// Of a node that listens at `listen`, is known as the URL `advertise`, and under more names.
    pub(crate) fn new(listen: SocketAddr, advertise: &str, more: &[String]) -> Self {
        let advertised = authority(advertise).map(|authority| host_of(authority).to_owned());
        let names = more.iter().cloned().chain(advertised);
        Self {
            listen: Some(listen.ip()),
            names: names.collect(),
        }
    }

    /// Refuses a request for another host. One without a host is of no browser.
    pub(crate) fn check<B>(&self, request: &http::Request<B>) -> Result<(), Problem> {
        let named = named(request.headers())?;
        let in_target = request.uri().host();
        for host in named.map(host_of).into_iter().chain(in_target) {
            if !self.allows(host) {
                let host: String = host.chars().take(255).collect();
                let detail = format!("this node is not asked as {host:?}");
                return Err(
                    Problem::new(ErrorCode::UnknownHost, detail).with_hint(format!(
                        "ask {}, or add the name to http.hosts",
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
            // No name server leads to it: a node that listens everywhere is asked by any address.
            let is_own = |own: IpAddr| own.is_unspecified() || own == address;
            return address.to_canonical().is_loopback() || self.listen.is_some_and(is_own);
        }
        let last = host.rsplit('.').next();
        last.is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
    }
}

/// What the request names, once at most.
fn named(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let refuse = |detail: &str| Problem::new(ErrorCode::InvalidArgument, detail);
    let mut values = headers.get_all(HOST).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(refuse("a request has one Host header"));
    }
    let text = value.to_str();
    text.map(Some)
        .map_err(|_| refuse("the Host header is not a host"))
}

/// A host without its port; an IPv6 address keeps its brackets.
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
    fn a_node_that_listens_everywhere_is_asked_by_any_address_but_not_by_any_name() {
        let hosts = hosts("0.0.0.0:7400");
        assert_eq!(code(&hosts, "/v1/id", &["10.0.0.7:7400"]), None);
        assert_eq!(code(&hosts, "/v1/id", &["[2001:db8::1]:7400"]), None);
        let name = code(&hosts, "/v1/id", &["evil.example"]);
        assert_eq!(name.as_deref(), Some("unknown-host"));
    }
}
