//! The same entries give the same outcomes, rows and digest on every replica, however often the
//! replica took a checkpoint, loaded its state from rows, or restarted in between.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use seqd_state::codec::frame;
use seqd_state::{CodecError, Entry, Holdings, Outcome, RowError, State, decode, encode, row_hash};
use support::scripts::MEMBERSHIP;
use support::{digest_of_rows, founded, scripts};

/// Returns the holdings of tenants in each resource.
fn holdings(state: &State) -> [Holdings; 4] {
    [
        state.keys_held(),
        state.one_time_held(),
        state.locks_held(),
        state.sequences_held(),
    ]
    .map(Clone::clone)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn two_replicas_agree_on_outcomes_rows_and_digest(entries in scripts::entries(60)) {
        let (mut one, mut other) = (State::new(), State::new());
        for entry in &entries {
            let outcomes = one.apply(entry, MEMBERSHIP);
            prop_assert_eq!(outcomes.len(), entry.commands.len());
            let read_back: Entry = decode(&encode(entry).unwrap()).unwrap();
            prop_assert_eq!(&read_back, entry);
            prop_assert_eq!(&other.apply(&read_back, MEMBERSHIP), &outcomes);
            let frames = frame::write_all(&outcomes).unwrap();
            let read_back: Vec<Outcome> = frame::read_all(&frames).unwrap();
            prop_assert_eq!(read_back, outcomes);
        }
        prop_assert!(one.rows().eq(other.rows()));
        prop_assert_eq!(one.digest(), other.digest());
        prop_assert_eq!(one.next_deadline(), other.next_deadline());
    }

    #[test]
    fn the_time_of_the_cluster_never_falls_whatever_the_stamps(entries in scripts::entries(40)) {
        let mut state = State::new();
        let mut cluster = state.cluster_ms();
        for entry in &entries {
            state.apply(entry, MEMBERSHIP);
            prop_assert_eq!(state.last_wall_ms(), entry.stamp.wall_ms);
            prop_assert!(state.cluster_ms() >= cluster, "the cluster's time fell");
            cluster = state.cluster_ms();
        }
    }

    #[test]
    fn the_digest_kept_along_is_the_digest_of_all_rows(
        entries in scripts::entries(40),
        drains in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let mut state = State::new();
        let mut stored = BTreeMap::new();
        for (entry, drain) in entries.iter().zip(drains) {
            state.apply(entry, MEMBERSHIP);
            prop_assert_eq!(state.digest(), digest_of_rows(&state));
            if drain {
                let changes = state.drain_changes();
                for (key, value) in changes.rows {
                    match value {
                        Some(value) => stored.insert(key, value),
                        None => stored.remove(&key),
                    };
                }
                prop_assert!(state.rows().eq(stored.clone()));
                prop_assert_eq!(changes.digest, digest_of_rows(&state));
            }
        }
    }

    #[test]
    fn a_state_loaded_from_its_rows_behaves_as_the_one_that_wrote_them(
        before in scripts::entries(40),
        after in scripts::entries(20),
    ) {
        let mut state = State::new();
        for entry in &before {
            state.apply(entry, MEMBERSHIP);
        }
        let mut rows: Vec<_> = state.rows().collect();
        prop_assert!(rows.is_sorted(), "rows come in the order of their keys");
        rows.reverse();
        let mut read_back = State::from_rows(rows).unwrap();
        prop_assert_eq!(read_back.digest(), state.digest());
        // A loaded state counts its holdings from the rows.
        prop_assert_eq!(holdings(&read_back), holdings(&state));
        prop_assert_eq!(read_back.next_deadline(), state.next_deadline());
        prop_assert!(read_back.drain_changes().rows.is_empty());
        for entry in &after {
            prop_assert_eq!(read_back.apply(entry, MEMBERSHIP), state.apply(entry, MEMBERSHIP));
            prop_assert_eq!(read_back.next_deadline(), state.next_deadline());
        }
        prop_assert!(read_back.rows().eq(state.rows()));
        let recount = State::from_rows(state.rows()).unwrap();
        prop_assert_eq!(holdings(&recount), holdings(&state));
        prop_assert_eq!(holdings(&read_back), holdings(&state));
    }

    #[test]
    fn damaged_bytes_are_refused_or_another_value_but_never_a_panic(
        entries in scripts::entries(6),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        for entry in entries {
            let mut bytes = encode(&entry).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Ok(other) = decode::<Entry>(&bytes) {
                prop_assert!(other != entry);
            }
            bytes.truncate(at);
            prop_assert!(decode::<Entry>(&bytes).is_err());
        }
    }
}

#[test]
fn a_row_drained_once_is_not_drained_again_until_it_changes() {
    let mut state = founded();
    assert!(!state.drain_changes().rows.is_empty());
    assert!(state.drain_changes().rows.is_empty());
    state.apply(
        &Entry {
            stamp: support::stamp(1, 1),
            commands: vec![],
        },
        None,
    );
    assert!(!state.drain_changes().rows.is_empty());
}

#[test]
fn a_flipped_byte_in_a_row_is_found() {
    let state = founded();
    for (at, (key, value)) in state.rows().enumerate() {
        for byte in 0..value.len() {
            let mut damaged = value.clone();
            damaged[byte] ^= 1;
            let mut rows: Vec<_> = state.rows().collect();
            assert_ne!(row_hash(&key, &value), row_hash(&key, &damaged));
            rows[at].1 = damaged;
            if let Ok(read_back) = State::from_rows(rows) {
                assert_ne!(read_back.digest(), state.digest());
            }
        }
    }
}

#[test]
fn rows_that_belong_to_no_state_are_refused() {
    let rows: Vec<_> = founded().rows().collect();
    let unknown = State::from_rows([(b"?".to_vec(), Vec::new())]).unwrap_err();
    assert_eq!(unknown, RowError::UnknownKey { key: b"?".to_vec() });
    assert!(matches!(
        State::from_rows([(Vec::new(), Vec::new())]),
        Err(RowError::UnknownKey { .. })
    ));
    let long_key = State::from_rows([(b"a!".to_vec(), rows[0].1.clone())]);
    assert!(matches!(long_key, Err(RowError::UnknownKey { .. })));
    let twice = State::from_rows([rows[0].clone(), rows[0].clone()]);
    assert!(matches!(twice, Err(RowError::Repeated { .. })));
    let mut newer = rows[0].clone();
    newer.1[1] += 1;
    let Err(RowError::Value {
        source: CodecError::NewerVersion { .. },
        ..
    }) = State::from_rows([newer])
    else {
        panic!("a newer version is named");
    };
}
