//! The table, tested with typical operator actions on folders, and with properties over arbitrary
//! scripts.

use proptest::prelude::*;
use seqd_store::records::{Ballot, LogIdRecord};

use super::*;

const A: u64 = 1;

fn leader(term: u64, node: u64) -> Option<Ballot> {
    Some(Ballot {
        term,
        committed: true,
        node,
    })
}

fn vote(term: u64, node: u64) -> Option<Ballot> {
    Some(Ballot {
        term,
        committed: false,
        node,
    })
}

fn synced(vote: Option<Ballot>, last: Option<(u64, u64)>) -> SyncedPosition {
    SyncedPosition {
        vote,
        last: last.map(|(term, index)| LogIdRecord { term, index }),
    }
}

fn start(boot: u64, nonce: u64) -> Start {
    Start { boot, nonce }
}

#[test]
fn an_older_copy_of_a_folder_that_was_not_started_since_is_refused() {
    let mut table = Table::default();
    let had = synced(leader(5, 2), Some((5, 100)));
    table.record(A, start(1, 10), had);
    // The copy was taken at entry 60 of the running node, and is the second start.
    let copy = synced(leader(5, 2), Some((5, 60)));
    let stale = table.judge(A, start(2, 20), copy).unwrap_err();
    assert_eq!(
        stale.to_string(),
        "it has acknowledged term 5 led by node 2, entry 100 of term 5, and this folder was \
         started with term 5 led by node 2, entry 60 of term 5"
    );
    // The original folder is accepted, with or without more than was acknowledged.
    assert_eq!(table.judge(A, start(2, 21), had), Ok(()));
}

#[test]
fn a_copy_of_a_folder_that_was_started_since_is_refused_whatever_it_shows() {
    let mut table = Table::default();
    table.note_start(A, start(2, 20));
    let much = synced(leader(9, 2), Some((9, 900)));
    assert!(matches!(
        table.judge(A, start(1, 10), much),
        Err(Stale::Later { seen: 2, this: 1 })
    ));
    assert!(matches!(
        table.judge(A, start(2, 10), much),
        Err(Stale::Twin { boot: 2 })
    ));
    assert_eq!(
        table.judge(A, start(2, 20), SyncedPosition::default()),
        Ok(())
    );
    assert_eq!(
        table.judge(A, start(3, 30), SyncedPosition::default()),
        Ok(())
    );
}

#[test]
fn an_acknowledgement_of_a_start_is_not_held_against_the_same_start() {
    let mut table = Table::default();
    let began = synced(leader(5, 2), Some((5, 60)));
    table.note_start(A, start(1, 10));
    table.record(A, start(1, 10), synced(leader(5, 2), Some((5, 100))));
    assert_eq!(table.judge(A, start(1, 10), began), Ok(()));
    assert!(table.judge(A, start(2, 11), began).is_err());
}

#[test]
fn an_acknowledgement_of_an_earlier_start_is_held_against_a_running_one_too() {
    // A returned with an old copy while only B was up, which had no record. C has a record of more.
    let began = synced(leader(5, 2), Some((5, 60)));
    let mut c = Table::default();
    c.record(A, start(1, 10), synced(leader(5, 2), Some((5, 100))));
    let mut b = Table::default();
    b.record(A, start(2, 20), synced(leader(6, 2), Some((6, 70))));
    assert_eq!(b.judge(A, start(2, 20), began), Ok(()));
    for merged in [
        {
            let mut table = b.clone();
            table.merge(c.rows());
            table
        },
        {
            let mut table = c.clone();
            table.merge(b.rows());
            table
        },
    ] {
        assert!(merged.judge(A, start(2, 20), began).is_err());
    }
}

#[test]
fn under_a_higher_vote_the_log_may_be_shorter() {
    let mut table = Table::default();
    table.record(A, start(1, 10), synced(leader(5, 1), Some((5, 100))));
    let cut = synced(leader(6, 2), Some((6, 91)));
    assert_eq!(table.judge(A, start(2, 20), cut), Ok(()));
    table.record(A, start(2, 20), cut);
    assert_eq!(table.judge(A, start(3, 30), cut), Ok(()));
}

#[test]
fn the_winner_of_a_term_may_be_another_than_the_one_voted_for() {
    let mut table = Table::default();
    table.record(A, start(1, 10), synced(vote(5, 3), None));
    // Node 3 lost the election: node 2, whose number is smaller, won the term with the others'
    // votes.
    let follows = synced(leader(5, 2), Some((4, 40)));
    assert_eq!(table.judge(A, start(2, 20), follows), Ok(()));
    let forgot_the_vote = synced(leader(4, 2), Some((4, 40)));
    assert!(table.judge(A, start(2, 20), forgot_the_vote).is_err());
}

#[test]
fn of_twins_the_first_stays_and_neither_s_acknowledgements_are_forgotten() {
    let mut table = Table::default();
    let (one, other) = (start(2, 1), start(2, 2));
    table.record(A, one, synced(leader(5, 2), Some((5, 10))));
    table.record(A, other, synced(leader(5, 2), Some((5, 20))));
    assert_eq!(table.is_latest(A, one), Ok(()));
    assert!(table.is_latest(A, other).is_err());
    let folder_of_one = synced(leader(5, 2), Some((5, 10)));
    assert!(table.judge(A, start(3, 3), folder_of_one).is_err());
}

#[test]
fn a_table_is_bounded_and_drops_removed_members() {
    let mut table = Table::default();
    for node in 0..10_000 {
        table.note_start(node, start(1, 1));
    }
    assert_eq!(table.rows().len(), NODES);
    table.retain(|node| node < 3);
    assert_eq!(table.rows().len(), 3);
    table.note_start(500, start(1, 1));
    assert_eq!(table.rows().len(), 4);
}

fn any_synced() -> impl Strategy<Value = SyncedPosition> {
    let any_vote = proptest::option::of((0..4_u64, any::<bool>(), 1..4_u64));
    let any_last = proptest::option::of((0..4_u64, 0..6_u64));
    (any_vote, any_last).prop_map(|(ballot, last)| SyncedPosition {
        vote: ballot.map(|(term, committed, node)| Ballot {
            term,
            committed,
            node,
        }),
        last: last.map(|(term, index)| LogIdRecord { term, index }),
    })
}

/// The reports of the nodes of a small cluster, each with the number of the start.
fn any_words() -> impl Strategy<Value = Vec<(u64, u64, SyncedPosition)>> {
    proptest::collection::vec((1..3_u64, 1..5_u64, any_synced()), 0..24)
}

fn table_of<'a>(words: impl IntoIterator<Item = &'a (u64, u64, SyncedPosition)>) -> Table {
    let mut table = Table::default();
    for (node, boot, synced) in words {
        table.record(*node, start(*boot, *boot), *synced);
    }
    table
}

proptest! {
    #[test]
    fn tables_come_to_the_same_in_whatever_order_they_hear(
        words in any_words(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let whole = table_of(&words);
        let mut backwards = table_of(words.iter().rev());
        prop_assert_eq!(whole.rows(), backwards.rows());
        let (one, other) = words.split_at(cut.index(words.len() + 1));
        let mut merged = table_of(one);
        merged.merge(table_of(other).rows());
        prop_assert_eq!(whole.rows(), merged.rows());
        let version = backwards.version();
        backwards.merge(whole.rows());
        prop_assert_eq!(backwards.version(), version, "what is known changes nothing");
        prop_assert_eq!(Table::from_rows(whole.rows()).rows(), whole.rows());
    }

    #[test]
    fn a_start_is_judged_by_exactly_what_the_starts_before_it_reported(
        words in any_words(),
        boot in 1..6_u64,
        shows in any_synced(),
    ) {
        let table = table_of(&words);
        let of_a = || words.iter().filter(|(node, _, _)| *node == A);
        let later = of_a().any(|(_, seen, _)| *seen > boot);
        let less = of_a().any(|(_, seen, synced)| *seen < boot && *synced > shows);
        let verdict = table.judge(A, start(boot, boot), shows);
        prop_assert!(verdict.is_err() || !less, "a start with less than was acknowledged takes part");
        prop_assert_eq!(verdict.is_err(), later || less, "{:?}", verdict);
        // A twin of a start that was seen is never accepted.
        let seen = of_a().any(|(_, seen, _)| *seen >= boot);
        if seen {
            prop_assert!(table.judge(A, start(boot, 99), shows).is_err(), "a twin takes part");
        }
    }

    #[test]
    fn an_honest_disk_is_never_refused(
        steps in proptest::collection::vec((any::<bool>(), any_synced()), 0..24),
    ) {
        // The content of the disk only grows. From time to time it is acknowledged to one of two
        // peers, the peers exchange their tables, and the node is restarted.
        let mut disk = SyncedPosition::default();
        let (mut one, mut other) = (Table::default(), Table::default());
        let mut boot = 1;
        for (to_one, wrote) in steps {
            disk = disk.max(wrote);
            let table = if to_one { &mut one } else { &mut other };
            table.record(A, start(boot, boot), disk);
            if wrote.last.is_none() {
                boot += 1;
                for table in [&mut one, &mut other] {
                    prop_assert_eq!(table.judge(A, start(boot, boot), disk), Ok(()));
                    table.note_start(A, start(boot, boot));
                }
            }
            if wrote.vote.is_none() {
                one.merge(other.rows());
            }
        }
    }
}
