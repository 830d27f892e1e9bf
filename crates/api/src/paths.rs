//! Every path of the surface, as a template: servers route by it, clients fill it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// One ID: GET or POST.
pub const ID: &str = "/v1/id";
/// Many IDs: GET or POST.
pub const IDS: &str = "/v1/ids";
/// What an ID is made of: GET.
pub const ID_PARTS: &str = "/v1/ids/{id}";
/// One UUID: GET or POST.
pub const UUID: &str = "/v1/uuid";
/// Many UUIDs: GET or POST.
pub const UUIDS: &str = "/v1/uuids";
/// All layouts: GET, POST.
pub const LAYOUTS: &str = "/v1/layouts";
/// One layout: GET.
pub const LAYOUT: &str = "/v1/layouts/{name}";
/// The ID of a time, computed: POST.
pub const LAYOUT_ENCODE: &str = "/v1/layouts/{name}/encode";
/// All sequences: GET.
pub const SEQUENCES: &str = "/v1/sequences";
/// One sequence: GET, PUT, DELETE.
pub const SEQUENCE: &str = "/v1/sequences/{name}";
/// The next values: POST.
pub const SEQUENCE_NEXT: &str = "/v1/sequences/{name}/next";
/// Forward to a value: POST.
pub const SEQUENCE_ADVANCE: &str = "/v1/sequences/{name}/advance";
/// A range of a sequence for a client of its own: POST.
pub const SEGMENTS: &str = "/v1/sequences/{name}/segments";
/// The unused end of a range: DELETE.
pub const SEGMENT: &str = "/v1/sequences/{name}/segments/{grant}";
/// The idempotency keys: GET, DELETE.
pub const KEYS: &str = "/v1/idempotency";
/// An idempotency key: GET, DELETE.
pub const KEY: &str = "/v1/idempotency/{key}";
/// Asks to be told to go on: POST.
pub const KEY_BEGIN: &str = "/v1/idempotency/{key}/begin";
/// What came of it: POST.
pub const KEY_COMPLETE: &str = "/v1/idempotency/{key}/complete";
/// Ends a claim without a result: POST.
pub const KEY_ABANDON: &str = "/v1/idempotency/{key}/abandon";
/// One-time tokens: POST issues some; GET, DELETE.
pub const ONE_TIME: &str = "/v1/tokens";
/// One one-time token, by its first 11 characters: DELETE.
pub const ONE_TIME_TOKEN: &str = "/v1/tokens/{token}";
/// The use of a one-time token: POST.
pub const ONE_TIME_CONSUME: &str = "/v1/tokens/{token}/consume";
/// All worker leases: GET, POST.
pub const WORKERS: &str = "/v1/workers";
/// The lease of one worker: PUT, DELETE.
pub const WORKER_LEASE: &str = "/v1/workers/{layout}/{id}/lease";
/// All locks that are in use: GET.
pub const LOCKS: &str = "/v1/locks";
/// One lock: GET.
pub const LOCK: &str = "/v1/locks/{name}";
/// To hold a lock: POST.
pub const LOCK_ACQUIRE: &str = "/v1/locks/{name}/acquire";
/// To hold it longer: POST.
pub const LOCK_RENEW: &str = "/v1/locks/{name}/renew";
/// To hold it no more: POST.
pub const LOCK_RELEASE: &str = "/v1/locks/{name}/release";
/// To end the holds of others, by an operator: POST.
pub const LOCK_BREAK: &str = "/v1/locks/{name}/break";
/// Whether a token holds a lock: POST.
pub const LOCK_VERIFY: &str = "/v1/locks/{name}/verify";
/// The cluster as this node sees it: GET.
pub const CLUSTER: &str = "/v1/cluster";
/// All members: GET, POST.
pub const MEMBERS: &str = "/v1/cluster/members";
/// One member: DELETE.
pub const MEMBER: &str = "/v1/cluster/members/{name}";
/// From learner to voter: POST.
pub const MEMBER_PROMOTE: &str = "/v1/cluster/members/{name}/promote";
/// A node gives up what it minted ahead of the clock: POST.
pub const MEMBER_RESET_WORKERS: &str = "/v1/cluster/members/{name}/reset-workers";
/// The leader: POST moves it.
pub const LEADER: &str = "/v1/cluster/leader";
/// The state as a file: GET.
pub const SNAPSHOT: &str = "/v1/cluster/snapshot";
/// All tokens: GET, POST.
pub const ACCESS: &str = "/v1/access";
/// One token: DELETE.
pub const ACCESS_TOKEN: &str = "/v1/access/{id}";
/// The configuration of the node that answers: GET.
pub const CONFIG: &str = "/v1/config";
/// Whether the process runs: GET.
pub const LIVEZ: &str = "/livez";
/// Whether the node can serve: GET.
pub const READYZ: &str = "/readyz";
/// Prometheus metrics: GET.
pub const METRICS: &str = "/metrics";
/// The version of the node that answers: GET.
pub const VERSION: &str = "/version";
/// A page about an error code: GET.
pub const PROBLEM: &str = "/problems/{code}";

/// What a parameter may hold unescaped: the unreserved characters of RFC 3986, and the colon of
/// names.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// The template with its first parameter filled in, percent-encoded.
#[must_use]
pub fn fill(template: &str, value: &str) -> String {
    let (Some(open), Some(close)) = (template.find('{'), template.find('}')) else {
        return template.to_owned();
    };
    let (before, after) = (&template[..open], &template[close + 1..]);
    format!("{before}{}{after}", utf8_percent_encode(value, KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_filled_and_escaped() {
        assert_eq!(
            fill(SEQUENCE_NEXT, "eu.order:1"),
            "/v1/sequences/eu.order:1/next"
        );
        assert_eq!(fill(SEQUENCE, "a/b ü"), "/v1/sequences/a%2Fb%20%C3%BC");
        assert_eq!(fill(CLUSTER, "x"), "/v1/cluster");
    }
}
