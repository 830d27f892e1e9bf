//! A fuzz target for headers: hosts, origins, tokens, media types and tags.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::http::header::{ACCEPT, AUTHORIZATION, HOST, IF_MATCH, IF_NONE_MATCH, ORIGIN};
use axum::http::{self, HeaderMap, HeaderName, HeaderValue, Method};
use futures_util::FutureExt as _;
use seqd_api::address::base_url;
use seqd_api::{Media, Need, Problem, Scope};
use seqd_idgen::{WallClock, WallMs};
use seqd_raft::{ProposeError, Turn};
use seqd_state::{
    AccessCommand, AccessId, ClusterCommand, Command, Entry, Found, NodeId, Outcome, Permission,
    Stamp, State, TokenHash, Wait,
};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::MOST_WORDS;
use crate::access::{Access, Caller, NotLetIn, TokenFile};
use crate::http::bearer;
use crate::http::etag::{ETag, if_match, only_new};
use crate::http::gate::{self, REQUEST_ID, RequestIds};
use crate::http::hosts::Hosts;
use crate::http::negotiate::choose;
use crate::replica::{self, Progress, Replica};

/// Tests the headers that a node reads, one per line; the first byte of a line selects the header.
///
/// An accepted host must be a name or an address of the node. An origin that may make changes must
/// be that of the requested host. An admitted token must be in force. Each refusal must have a
/// message.
pub fn node_header(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let Some((which, value)) = line.split_first() else {
            continue;
        };
        let names = [
            HOST,
            ORIGIN,
            ACCEPT,
            IF_MATCH,
            IF_NONE_MATCH,
            AUTHORIZATION,
            REQUEST_ID,
            HeaderName::from_static("seqd-cluster"),
        ];
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(names[usize::from(*which) % names.len()].clone(), value);
        }
    }
    hosts(&headers);
    origin(&headers);
    token(&headers);
    for forms in [
        &[Media::Text, Media::Json][..],
        &[Media::Metrics, Media::OpenMetrics],
    ] {
        match choose(&headers, forms) {
            Ok(form) => assert!(forms.contains(&form)),
            Err(problem) => worded(&problem),
        }
    }
    let tag = ETag {
        revision: 3,
        state: 57,
    };
    let is_known = tag.is_known(&headers);
    assert!(!is_known || headers.contains_key(IF_NONE_MATCH));
    for refused in [if_match(&headers).err(), only_new(&headers).err()] {
        refused.iter().for_each(worded);
    }
    let id = RequestIds::new(1).of(&headers);
    assert!(!id.is_empty() && id.len() <= 128 && id.as_bytes().iter().all(u8::is_ascii_graphic));
}

fn hosts(headers: &HeaderMap) {
    let mut request = http::Request::new(());
    *request.headers_mut() = headers.clone();
    let listen = (Ipv4Addr::LOCALHOST, 7400).into();
    let own = Hosts::new(
        listen,
        &base_url("n1.example:7400"),
        &["ids.example".to_owned()],
    );
    match own.check(&request) {
        Ok(()) => {
            let Some(host) = headers.get(HOST) else {
                return;
            };
            let host = host.to_str().unwrap_or_default().to_ascii_lowercase();
            let known = ["localhost", "127.", "::", "0:", "n1.example", "ids.example"];
            assert!(known.iter().any(|name| host.contains(name)), "{host}");
        }
        Err(problem) => worded(&problem),
    }
}

fn origin(headers: &HeaderMap) {
    let checked = gate::check(&Method::POST, headers, false, || Some("01J9".to_owned()));
    match checked {
        Ok(()) => {
            if let Some(origin) = headers.get(ORIGIN) {
                let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
                let host = headers
                    .get(HOST)
                    .map(|host| host.as_bytes().to_ascii_lowercase());
                let authority = origin
                    .split_once("://")
                    .map(|(_, it)| it.as_bytes().to_vec());
                assert!(authority.is_some() && authority == host, "{origin}");
            }
        }
        Err(problem) => worded(&problem),
    }
}

/// The operator's token, and a token of the cluster that may take values of `order/`.
const OPERATORS: &str = "0123456789abcdef0123456789abcdef";
const SECRET: &str = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f";
const ID: AccessId = AccessId(0x0123_4567_89ab_cdef);

fn access() -> Access {
    let mut state = State::new();
    let found = ClusterCommand::Found(Found {
        cluster_id: "01J9".to_owned(),
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        founders: vec![(NodeId(1), "n1".to_owned())],
    });
    let create = AccessCommand::Create {
        id: ID,
        hash: TokenHash(Sha256::digest(SECRET).into()),
        permissions: vec![Permission {
            scope: seqd_state::Scope::Allocate,
            prefix: "order/".to_owned(),
        }],
        description: String::new(),
        expires_ms: None,
        per_second: None,
    };
    let (stamp, commands) = (Stamp::default(), vec![found.into(), create.into()]);
    state.apply(&Entry { stamp, commands }, None);
    let operator = TokenFile::of_token(OPERATORS);
    let access = Access::new(
        Some(operator),
        Arc::new(Fixed(state)),
        Arc::new(Noon),
        std::time::Duration::MAX,
    );
    // Neither the replica nor the check waits for anything.
    access.look().now_or_never();
    access
}

thread_local! {
    static ACCESS: Access = access();
}

/// A state that does not change.
struct Fixed(State);

impl Replica for Fixed {
    fn is_in_touch(&self) -> bool {
        true
    }

    fn propose(&self, _: Vec<Command>, _: Instant) -> replica::Answer<'_, Vec<Outcome>> {
        Box::pin(async { Err(ProposeError::Stopping) })
    }

    fn read(&self, _: Instant) -> replica::Answer<'_, seqd_state::ClusterMs> {
        Box::pin(async { Ok(seqd_state::ClusterMs(0)) })
    }

    fn draw(&self, _: seqd_state::Draw, _: Instant) -> replica::Drawing<'_> {
        Box::pin(async { Err(seqd_raft::DrawError::ClockUnknown) })
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) -> Result<(), ProposeError> {
        at(&self.0);
        Ok(())
    }

    fn without_leader(&self) -> Option<ProposeError> {
        None
    }

    fn wait_for_turn(&self, _: Wait) -> Option<Turn> {
        None
    }

    fn started(&self) -> Option<(NodeId, u64)> {
        None
    }
}

struct Noon;

impl WallClock for Noon {
    fn wall(&self) -> WallMs {
        WallMs(1_795_228_001_118)
    }
}

fn token(headers: &HeaderMap) {
    let access = ACCESS.with(Clone::clone);
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let shown = given.next().map(HeaderValue::as_bytes).unwrap_or_default();
    let shown = shown.split_at_checked("Bearer ".len());
    let shown = shown
        .map(|(_, token)| token.trim_ascii())
        .unwrap_or_default();
    let is_alone = given.next().is_none();
    let of_cluster = format!("seqd_{ID}_{SECRET}");
    match bearer::admit(&access, "/v1/id", headers) {
        Ok(Caller::Operator) => assert!(is_alone && shown == OPERATORS.as_bytes()),
        Ok(caller @ Caller::Token(id)) => {
            assert!(is_alone && id == ID && shown == of_cluster.as_bytes());
            let may = |scope, name| access.permits(caller, Need::Named(scope), name);
            assert!(may(Scope::Allocate, "order/a") && !may(Scope::Admin, "order/a"));
            assert!(!may(Scope::Read, "invoice/a") && !may(Scope::Read, "order"));
        }
        Ok(Caller::Anyone) => panic!("let in without a token"),
        Err(why) => {
            let is_own = shown == OPERATORS.as_bytes() || shown == of_cluster.as_bytes();
            assert!(
                matches!(why, NotLetIn::Missing | NotLetIn::Unknown),
                "{why:?}"
            );
            let scheme = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
            let scheme = scheme.and_then(|value| value.get(..7)).unwrap_or_default();
            assert!(!is_own || !is_alone || !scheme.eq_ignore_ascii_case(b"Bearer "));
        }
    }
    assert!(bearer::admit(&access, "/livez", headers).is_ok());
    assert_eq!(
        bearer::admit(&Access::default(), "/v1/id", headers),
        Ok(Caller::Anyone)
    );
}

fn worded(problem: &Problem) {
    assert!((400..500).contains(&problem.status), "{problem:?}");
    assert!(
        (1..=MOST_WORDS).contains(&problem.detail.len()),
        "{problem:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    #[test]
    fn kept_headers_let_in_who_may_come_in() {
        let inputs = [
            "\0localhost:7400",
            "\0[::1]:7400\n\u{1}http://[::1]:7400",
            "\0n1.example.\n\u{1}null",
            "\0evil.example\n\u{2}text/plain;q=0.5, application/json",
            "\u{3}\"3-57\"\n\u{4}W/\"3-57\", *",
            "\u{5}Bearer 0123456789abcdef0123456789abcdef",
            "\u{5}bearer  0123456789abcdef0123456789abcdef ",
            "\u{5}Bearer a\n\u{5}Bearer a",
            "\u{5}Bearer seqd_0123456789abcdef_0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
            "\u{6}req-7\n\u{7}01J9",
        ];
        let inputs = inputs.map(|text| text.as_bytes().to_vec());
        replay("node_header", &seeds(inputs), node_header);
    }
}
