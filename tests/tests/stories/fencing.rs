//! Resources that check fencing tokens, as the examples of LOCKS.md do: an earlier holder of the
//! lock is refused, however long it was away.

use std::time::Duration;

use seqd_tests::binary::workspace;
use seqd_tests::postgres::{self, Postgres};
use seqd_tests::{skips, wait};

/// The database of the example, with an account to write.
fn database() -> Postgres {
    let postgres = Postgres::start();
    let example = workspace().join("docs/examples/fenced.sql");
    let example = std::fs::read_to_string(example).unwrap();
    let made = postgres.sql(&example);
    assert!(made.status.success(), "{made:?}");
    let made =
        postgres.sql("CREATE TABLE account (balance bigint); INSERT INTO account VALUES (0)");
    assert!(made.status.success(), "{made:?}");
    postgres
}

/// A holder's transaction: it presents its token, then writes.
fn write(token: u64, rest: &str) -> String {
    format!(
        "BEGIN; SELECT fence('report', {token}); UPDATE account SET balance = {token}; {rest} COMMIT"
    )
}

fn balance(postgres: &Postgres) -> String {
    let read = postgres.sql("SELECT balance FROM account");
    String::from_utf8(read.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_database_refuses_the_transaction_of_an_earlier_holder() {
    if skips::ends("PostgreSQL", postgres::missing()) {
        return;
    }
    let postgres = database();
    for token in [41, 42, 42] {
        let written = postgres.sql(&write(token, ""));
        assert!(written.status.success(), "{written:?}");
    }
    let refused = postgres.sql(&write(41, ""));
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "an earlier holder wrote");
    assert!(words.contains("token 41 is older than 42"), "{words}");
    assert_eq!(balance(&postgres), "42");
    let unchecked = postgres.sql("UPDATE account SET balance = 41");
    assert!(unchecked.status.success(), "{unchecked:?}");
    assert_eq!(balance(&postgres), "41", "a write that shows no token");
    let other = postgres.sql("SELECT fence('other', 1)");
    assert!(other.status.success(), "another lock: {other:?}");
}

/// The earlier holder is in the middle of its transaction when the next one begins.
#[test]
fn a_transaction_that_is_under_way_ends_before_that_of_the_next_holder_begins() {
    if skips::ends("PostgreSQL", postgres::missing()) {
        return;
    }
    let postgres = database();
    let mut earlier = postgres
        .session(&write(7, "SELECT pg_sleep(1);"))
        .spawn()
        .unwrap();
    wait::until(
        "the earlier holder is inside",
        Duration::from_secs(10),
        || {
            let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            let count = postgres.sql(sleeps).stdout;
            (count.trim_ascii() == b"1").then_some(())
        },
    );
    let next = postgres.sql(&write(8, ""));
    assert!(next.status.success(), "{next:?}");
    assert!(earlier.wait().unwrap().success());
    assert_eq!(balance(&postgres), "8");
}
