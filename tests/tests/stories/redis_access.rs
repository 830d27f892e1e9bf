//! Access tokens over the Redis protocol: what a connection without one may hold, and what a token
//! with prefixes shows.

use std::time::Duration;

use seqd_tests::callers::{Caller, guarded};
use seqd_tests::cluster::Cluster;
use seqd_tests::ports::Port;
use seqd_tests::resp::{Resp, Value, command, with_redis};
use seqd_tests::wait::until;
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than the part of an incomplete request that needs no token.
const LARGE: usize = 2_000;

fn auth(port: &Port, token: &str) -> Resp {
    let mut client = Resp::connect(port);
    assert_eq!(
        client.send(&["AUTH", token]),
        Value::Simple("OK".to_owned())
    );
    client
}

#[test]
fn a_connection_without_a_token_holds_no_large_incomplete_request() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let text = "x".repeat(LARGE);
    let echo = command(&["ECHO", &text]);
    let (begin, rest) = echo.split_at(LARGE - 100);

    let strangers = [
        Resp::connect(&ports[0]),
        // A refused token counts as none.
        {
            let mut client = Resp::connect(&ports[0]);
            let refused = client.send(&["AUTH", &"z".repeat(600)]);
            assert!(refused.error().starts_with("WRONGPASS "), "{refused:?}");
            client
        },
    ];
    for mut stranger in strangers {
        stranger.write(begin).expect("a connection");
        let refused = stranger.reply().expect("a reply");
        assert!(refused.error().starts_with("NOAUTH "), "{refused:?}");
        assert!(stranger.reply().is_err(), "the connection is open");
    }
    // With a token, the same request is served.
    let (caller, _) = Caller::with(&cluster, &json!({"scopes": ["read:a."]}));
    for token in [&caller.token, &Caller::operator(&cluster).token] {
        let mut client = auth(&ports[0], token);
        client.write(begin).expect("a connection");
        client.write(rest).expect("a connection");
        assert_eq!(client.reply().expect("a reply"), Value::bulk(&text));
    }
}

#[test]
fn dbsize_and_info_count_only_names_that_the_token_may_see() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let mut operator = auth(&ports[0], &Caller::operator(&cluster).token);
    for name in ["a.1", "a.2", "b.1", "c.1"] {
        assert_eq!(operator.call(&format!("INCR {name}")).integer(), 1);
    }
    for name in ["a.lock", "c.lock"] {
        let held = operator.call(&format!("SET {name} v NX PX 600000"));
        assert_eq!(held, Value::Simple("OK".to_owned()));
    }
    for (scopes, names, locks) in [
        (json!(["read"]), 6, 2),
        (json!(["read:a."]), 3, 1),
        (json!(["read:a.", "allocate:b.", "read:a.1"]), 4, 1),
        (json!(["read:d."]), 0, 0),
    ] {
        let (caller, _) = Caller::with(&cluster, &json!({"scopes": scopes}));
        let mut client = auth(&ports[0], &caller.token);
        assert_eq!(client.call("DBSIZE").integer(), names, "{scopes}");
        let Value::Bulk(info) = client.call("INFO") else {
            panic!("INFO is no text");
        };
        let keys = format!("db0:keys={names},expires={locks},");
        assert!(info.contains(&keys), "{scopes}: {info}");
    }
}

#[test]
fn an_audited_command_is_logged_with_its_name() {
    let (cluster, ports) = with_redis(Cluster::planned(1));
    let (cluster, _file) = guarded(cluster);
    let mut operator = auth(&ports[0], &Caller::operator(&cluster).token);
    assert_eq!(operator.call("INCR a.x").integer(), 1);
    assert_eq!(operator.call("SET a.x 5"), Value::Simple("OK".to_owned()));
    until("the line of the log", PATIENCE, || {
        let log = cluster.node(0).stderr();
        log.contains("audit: redis set a.x\"").then_some(())
    });
}
