//! The address of a node as users write it: `host`, `host:port` or a URL.

use std::fmt;

use reqwest::Url;
use seqd_api::address::{HTTP_PORT, SCHEME, TLS_SCHEME};

use crate::error::Error;

/// The base address of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Parses `host`, `host:port`, `[v6]:port`, `http://host:port` or `https://host:port`.
    ///
    /// The default scheme is `http` and the default port is [`HTTP_PORT`].
    ///
    /// # Errors
    /// Another scheme, a path, a query, or no host.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::parse_with(text, false)
    }

    /// Like [`Endpoint::parse`], but `https` is the default scheme if `is_secure`.
    fn parse_with(text: &str, is_secure: bool) -> Result<Self, Error> {
        let text = text.trim();
        let default = if is_secure { TLS_SCHEME } else { SCHEME };
        let malformed =
            |reason: &str| Error::Endpoint(format!("{text:?} is not an endpoint: {reason}"));
        let (scheme, rest) = text.split_once("://").unwrap_or((default, text));
        if scheme != SCHEME && scheme != TLS_SCHEME {
            return Err(malformed("the scheme must be http or https"));
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(malformed("an endpoint has only a host and a port"));
        }
        let url = format!("{scheme}://{authority}");
        let mut url = Url::parse(&url).map_err(|error| malformed(&error.to_string()))?;
        if !has_port(authority) {
            url.set_port(Some(HTTP_PORT))
                .map_err(|()| malformed("the host is missing"))?;
        }
        Ok(Self(url))
    }

    /// Returns the base URL of the node, such as `http://n1:7400/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether the node is reached over TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme() == TLS_SCHEME
    }

    /// Returns the URL of a path on this node.
    #[must_use]
    pub(crate) fn url(&self, path: &str, query: &[(String, String)]) -> Url {
        let mut url = self.0.clone();
        // The paths are already escaped, and `set_path` does not change `%`.
        url.set_path(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query.iter());
        }
        url
    }
}

/// Returns whether the text has a port. `Url` omits port 80 of `http` and port 443 of `https`.
fn has_port(authority: &str) -> bool {
    let after_v6 = authority
        .rsplit_once(']')
        .map_or(authority, |(_, after)| after);
    after_v6.contains(':')
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.0.host_str().unwrap_or_default();
        write!(
            f,
            "{host}:{}",
            self.0.port_or_known_default().unwrap_or(HTTP_PORT)
        )
    }
}

/// Parses a comma-separated list of endpoints. `https` is the default scheme if `is_secure`.
///
/// # Errors
/// The first invalid endpoint, or an empty list.
pub fn parse_endpoints(list: &str, is_secure: bool) -> Result<Vec<Endpoint>, Error> {
    let endpoints: Vec<Endpoint> = list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(|text| Endpoint::parse_with(text, is_secure))
        .collect::<Result<_, _>>()?;
    if endpoints.is_empty() {
        Err(no_endpoint())
    } else {
        Ok(endpoints)
    }
}

pub(crate) fn no_endpoint() -> Error {
    Error::Endpoint("no endpoints are given".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_and_port_may_be_left_out() {
        let shown = |text: &str| Endpoint::parse(text).unwrap().to_string();
        assert_eq!(shown("n1.example"), "n1.example:7400");
        assert_eq!(shown("n1:80"), "n1:80");
        assert_eq!(shown("http://n1:7410/"), "n1:7410");
        assert_eq!(shown("http://n1"), "n1:7400");
        assert_eq!(shown("https://n1"), "n1:7400");
        assert_eq!(shown("https://n1:443"), "n1:443");
        assert_eq!(shown("[::1]"), "[::1]:7400");
        assert_eq!(shown("[::1]:7410"), "[::1]:7410");
        assert_eq!(shown(" 127.0.0.1:7420 "), "127.0.0.1:7420");
    }

    #[test]
    fn an_invalid_endpoint_is_refused() {
        for text in [
            "https://",
            "ftp://n1",
            "n1/v1",
            "n1:99999",
            "",
            "n1:x",
            "http://a@b",
            ":1",
        ] {
            assert!(Endpoint::parse(text).is_err(), "{text:?}");
        }
        let none = parse_endpoints(" , ", false).unwrap_err();
        assert_eq!(none.to_string(), "no endpoints are given");
        let mixed = parse_endpoints("a, http://b:1 ,", true).unwrap();
        let secure: Vec<bool> = mixed.iter().map(Endpoint::is_https).collect();
        assert_eq!(secure, [true, false]);
    }

    #[test]
    fn a_path_and_a_query_are_joined() {
        let url = Endpoint::parse("n1")
            .unwrap()
            .url("/v1/ids/a%2Fb", &[("format".into(), "b 6".into())]);
        assert_eq!(url.as_str(), "http://n1:7400/v1/ids/a%2Fb?format=b+6");
    }
}
