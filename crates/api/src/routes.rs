//! The table of routes: every path with its methods. A server serves exactly these, a client has a
//! call for each; a test on either side compares with this table.

use crate::paths;

/// What a request does to the thing that its path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads; on a route that allocates, takes.
    Get,
    /// Does.
    Post,
    /// Makes.
    Put,
    /// Removes.
    Delete,
}

impl Method {
    /// The method as it is written in a request.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// One path of the surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The template, such as `/v1/sequences/{name}`.
    pub path: &'static str,
    /// The methods that it takes, in the order of `Allow`.
    pub methods: &'static [Method],
    /// Whether a request takes a value. Then GET and POST are the same operation, and HEAD, which
    /// would take one and show nothing, is refused.
    pub allocates: bool,
    /// Whether it is served without a token too where others need one: what balances load has none.
    pub is_public: bool,
}

const GET: &[Method] = &[Method::Get];
const POST: &[Method] = &[Method::Post];
const DELETE: &[Method] = &[Method::Delete];
const GET_POST: &[Method] = &[Method::Get, Method::Post];

const fn route(path: &'static str, methods: &'static [Method]) -> Route {
    Route {
        path,
        methods,
        allocates: false,
        is_public: false,
    }
}

const fn allocating(path: &'static str) -> Route {
    Route {
        path,
        methods: GET_POST,
        allocates: true,
        is_public: false,
    }
}

const fn public(path: &'static str) -> Route {
    Route {
        path,
        methods: GET,
        allocates: false,
        is_public: true,
    }
}

/// All routes.
pub const ROUTES: &[Route] = &[
    allocating(paths::ID),
    allocating(paths::IDS),
    route(paths::ID_PARTS, GET),
    allocating(paths::UUID),
    allocating(paths::UUIDS),
    route(paths::LAYOUTS, GET),
    route(paths::LAYOUT, GET),
    route(paths::SEQUENCES, GET),
    route(paths::SEQUENCE, &[Method::Get, Method::Put, Method::Delete]),
    route(paths::SEQUENCE_NEXT, POST),
    route(paths::SEQUENCE_ADVANCE, POST),
    route(paths::SEGMENTS, POST),
    route(paths::SEGMENT, DELETE),
    route(paths::WORKERS, GET),
    route(paths::CLUSTER, GET),
    route(paths::MEMBERS, GET_POST),
    route(paths::MEMBER, DELETE),
    route(paths::MEMBER_PROMOTE, POST),
    route(paths::LEADER, POST),
    route(paths::SNAPSHOT, GET),
    route(paths::CONFIG, GET),
    public(paths::LIVEZ),
    public(paths::READYZ),
    route(paths::METRICS, GET),
    route(paths::VERSION, GET),
    route(paths::PROBLEM, GET),
];

/// The route of a template.
#[must_use]
pub fn find(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_alone_is_public() {
        let public = ROUTES.iter().filter(|route| route.is_public);
        let paths: Vec<_> = public.map(|route| route.path).collect();
        assert_eq!(paths, ["/livez", "/readyz"]);
    }

    #[test]
    fn every_path_has_one_route() {
        let mut paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), ROUTES.len());
        let declared = include_str!("paths.rs").lines();
        let declared = declared
            .filter(|line| line.starts_with("pub const "))
            .count();
        assert_eq!(declared, ROUTES.len(), "a constant of paths has no route");
    }
}
