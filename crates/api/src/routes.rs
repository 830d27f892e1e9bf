//! The table of routes: every path with its methods. A server serves exactly these, a client has a
//! call for each; a test on either side compares with this table.

use crate::paths;
use crate::scope::{Need, Scope};

/// What a request does to the thing that its path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads; on a route that allocates, takes.
    Get,
    /// Does.
    Post,
    /// Makes.
    Put,
    /// Changes a part.
    Patch,
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
            Self::Patch => "PATCH",
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
    /// What a GET needs of the caller's token, where callers need one.
    pub to_get: Need,
    /// What every other method needs, except DELETE.
    pub to_change: Need,
    /// What DELETE needs.
    pub to_delete: Need,
}

impl Route {
    /// What a request needs of the caller's token, where callers need one.
    #[must_use]
    pub const fn need(&self, method: Method) -> Need {
        match method {
            Method::Get => self.to_get,
            Method::Post | Method::Put | Method::Patch => self.to_change,
            Method::Delete => self.to_delete,
        }
    }

    /// Whether it is served without a token.
    #[must_use]
    pub const fn is_public(&self) -> bool {
        matches!(self.to_get, Need::Nothing)
    }
}

const GET: &[Method] = &[Method::Get];
const POST: &[Method] = &[Method::Post];
const DELETE: &[Method] = &[Method::Delete];
const PUT_DELETE: &[Method] = &[Method::Put, Method::Delete];
const GET_DELETE: &[Method] = &[Method::Get, Method::Delete];
const GET_POST_DELETE: &[Method] = &[Method::Get, Method::Post, Method::Delete];
const GET_POST: &[Method] = &[Method::Get, Method::Post];

/// A path that tells and, with other methods, changes.
const fn route(
    path: &'static str,
    methods: &'static [Method],
    to_get: Need,
    to_change: Need,
) -> Route {
    Route {
        path,
        methods,
        allocates: false,
        to_get,
        to_change,
        to_delete: to_change,
    }
}

/// A path that tells, and changes nothing.
const fn telling(path: &'static str, need: Need) -> Route {
    route(path, GET, need, need)
}

/// A path whose one method changes something.
const fn changing(path: &'static str, methods: &'static [Method], need: Need) -> Route {
    route(path, methods, need, need)
}

const fn allocating(path: &'static str) -> Route {
    Route {
        allocates: true,
        ..route(path, GET_POST, ANYWHERE, ANYWHERE)
    }
}

/// Takes what has no name: IDs, workers.
const ANYWHERE: Need = Need::Anywhere(Scope::Allocate);

/// Reads what a name in the path stands for.
const NAMED: Need = Need::Named(Scope::Read);
/// Takes values of what a name in the path stands for.
const TAKEN: Need = Need::Named(Scope::Allocate);
/// Takes what has no name, and no prefix could tell apart.
const GIVEN: Need = Need::Whole(Scope::Allocate);
/// Changes what a name in the path stands for.
const OWNED: Need = Need::Named(Scope::Admin);
/// Reads what the cluster is like.
const SEEN: Need = Need::Whole(Scope::Read);
/// Changes the cluster, or reads all of it.
const RULED: Need = Need::Whole(Scope::Admin);

const SEQUENCE: &[Method] = &[Method::Get, Method::Put, Method::Patch, Method::Delete];

/// All routes.
pub const ROUTES: &[Route] = &[
    allocating(paths::ID),
    allocating(paths::IDS),
    telling(paths::ID_PARTS, Need::AnyToken),
    allocating(paths::UUID),
    allocating(paths::UUIDS),
    route(paths::LAYOUTS, GET_POST, Need::AnyToken, RULED),
    telling(paths::LAYOUT, Need::AnyToken),
    changing(paths::LAYOUT_ENCODE, POST, Need::AnyToken),
    telling(paths::SEQUENCES, Need::Anywhere(Scope::Read)),
    route(paths::SEQUENCE, SEQUENCE, NAMED, OWNED),
    changing(paths::SEQUENCE_NEXT, POST, TAKEN),
    changing(paths::SEQUENCE_ADVANCE, POST, OWNED),
    changing(paths::SEGMENTS, POST, TAKEN),
    changing(paths::SEGMENT, DELETE, TAKEN),
    route(paths::KEYS, GET_DELETE, RULED, RULED),
    route(paths::KEY, GET_DELETE, NAMED, OWNED),
    changing(paths::KEY_BEGIN, POST, TAKEN),
    changing(paths::KEY_COMPLETE, POST, TAKEN),
    changing(paths::KEY_ABANDON, POST, TAKEN),
    Route {
        to_delete: RULED,
        ..route(paths::ONE_TIME, GET_POST_DELETE, RULED, GIVEN)
    },
    changing(paths::ONE_TIME_TOKEN, DELETE, RULED),
    changing(paths::ONE_TIME_CONSUME, POST, GIVEN),
    route(paths::WORKERS, GET_POST, SEEN, ANYWHERE),
    changing(paths::WORKER_LEASE, PUT_DELETE, ANYWHERE),
    telling(paths::LOCKS, Need::Anywhere(Scope::Read)),
    telling(paths::LOCK, NAMED),
    changing(paths::LOCK_ACQUIRE, POST, TAKEN),
    changing(paths::LOCK_RENEW, POST, TAKEN),
    changing(paths::LOCK_RELEASE, POST, TAKEN),
    changing(paths::LOCK_BREAK, POST, OWNED),
    changing(paths::LOCK_VERIFY, POST, NAMED),
    telling(paths::CLUSTER, SEEN),
    route(paths::MEMBERS, GET_POST, SEEN, RULED),
    changing(paths::MEMBER, DELETE, RULED),
    changing(paths::MEMBER_PROMOTE, POST, RULED),
    changing(paths::MEMBER_RESET_WORKERS, POST, RULED),
    changing(paths::LEADER, POST, RULED),
    telling(paths::SNAPSHOT, RULED),
    route(paths::ACCESS, GET_POST, RULED, RULED),
    changing(paths::ACCESS_TOKEN, DELETE, RULED),
    telling(paths::CONFIG, SEEN),
    telling(paths::LIVEZ, Need::Nothing),
    telling(paths::READYZ, Need::Nothing),
    telling(paths::METRICS, SEEN),
    telling(paths::VERSION, Need::AnyToken),
    telling(paths::PROBLEM, Need::AnyToken),
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
        let public = ROUTES.iter().filter(|route| route.is_public());
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
