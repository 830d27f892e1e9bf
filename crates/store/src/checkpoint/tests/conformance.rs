//! The contract of every store, tested on each implementation.

use proptest::prelude::*;

use super::*;
use crate::checkpoint::file_store::FileStores;

/// Checks the contract of a store. `reopen` closes the given store and opens it again.
fn conforms(
    mut store: Box<dyn StateStore>,
    reopen: &dyn Fn(Box<dyn StateStore>) -> Box<dyn StateStore>,
) {
    assert_eq!(store.applied(), None);
    assert_eq!(streamed(&*store), []);

    let mut rows = some_rows(40, 1);
    store.write(puts(&rows), &applied(10, &rows)).unwrap();
    assert_eq!(store.applied(), Some(applied(10, &rows)));
    assert_eq!(
        streamed(&*store),
        rows.clone().into_iter().collect::<Vec<_>>()
    );

    store = reopen(store);
    assert_eq!(store.applied(), Some(applied(10, &rows)));

    let gone = rows.pop_first().unwrap().0;
    rows.insert(b"\xff".to_vec(), Vec::new());
    rows.insert(Vec::new(), b"the empty key".to_vec());
    let changes = vec![
        (gone, None),
        (b"never there".to_vec(), None),
        (b"\xff".to_vec(), Some(Vec::new())),
        (Vec::new(), Some(b"the empty key".to_vec())),
    ];
    store.write(changes, &applied(11, &rows)).unwrap();
    store = reopen(store);
    assert_eq!(store.applied(), Some(applied(11, &rows)));
    assert_eq!(
        streamed(&*store),
        rows.clone().into_iter().collect::<Vec<_>>()
    );

    store = keeps_large_rows(store, &mut rows, reopen);

    let refused = |result: io::Result<()>| result.unwrap_err().kind();
    let back = store.write(Vec::new(), &applied(10, &rows));
    assert_eq!(refused(back), io::ErrorKind::InvalidInput);
    let large = vec![(b"k".to_vec(), Some(vec![0; MAX_ROW_BYTES]))];
    assert_eq!(
        refused(store.write(large, &applied(17, &rows))),
        io::ErrorKind::InvalidInput
    );
    store.write(Vec::new(), &applied(16, &rows)).unwrap();

    let mut seen = 0;
    let stopped = store.stream(&mut |_, _| {
        seen += 1;
        if seen == 3 {
            Err(io::Error::other("enough"))
        } else {
            Ok(())
        }
    });
    assert_eq!(
        (stopped.unwrap_err().to_string(), seen),
        ("enough".to_owned(), 3)
    );
    store.close().unwrap();
}

/// Checks that a store at index 11 keeps large rows, which it may store in parts, while they are
/// added, changed, shortened and removed. Its index is 16 afterwards.
fn keeps_large_rows(
    mut store: Box<dyn StateStore>,
    rows: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    reopen: &dyn Fn(Box<dyn StateStore>) -> Box<dyn StateStore>,
) -> Box<dyn StateStore> {
    for (index, sizes) in [
        [2_047, 2_048, 2_049, 4_096, 16_400],
        [16_400, 4_096, 1, 2_048, 0],
        [5, 6_000, 2_048, 2_047, 2_049],
    ]
    .into_iter()
    .enumerate()
    {
        let keys: [&[u8]; 5] = [b"k", b"k\0", b"kk", b"", b"large"];
        let large = keys.into_iter().zip(sizes);
        let large = large.map(|(key, size)| (key.to_vec(), vec![size as u8; size]));
        let large: BTreeMap<_, _> = large.collect();
        rows.extend(large.clone());
        store
            .write(puts(&large), &applied(12 + index as u64, rows))
            .unwrap();
        store = reopen(store);
        assert_eq!(
            streamed(&*store),
            rows.clone().into_iter().collect::<Vec<_>>()
        );
    }
    rows.remove(&b"kk"[..]);
    store
        .write(vec![(b"kk".to_vec(), None)], &applied(15, rows))
        .unwrap();
    rows.insert(b"kk".to_vec(), vec![0; 2_048]);
    let back = vec![(b"kk".to_vec(), Some(vec![0; 2_048]))];
    store.write(back, &applied(16, rows)).unwrap();
    assert_eq!(
        streamed(&*store),
        rows.clone().into_iter().collect::<Vec<_>>()
    );
    store
}

#[test]
fn the_sled_store_conforms() {
    let dir = temp();
    conforms_in(&place(dir.path()));
}

#[test]
fn the_file_store_conforms() {
    let dir = temp();
    conforms_in(&Place {
        stores: Arc::new(FileStores),
        ..place(dir.path())
    });
}

fn conforms_in(place: &Place) {
    conforms(create_empty(place).unwrap(), &|closed| {
        closed.close().unwrap();
        match open::<Rows>(place, false).unwrap() {
            Opened::Good { store, .. } | Opened::Empty { store } => store,
            aside @ Opened::SetAside { .. } => panic!("{aside:?}"),
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_checkpoints_come_back_after_a_reopen(
        rounds in prop::collection::vec(
            prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..6),
                 prop::option::of(prop::collection::vec(any::<u8>(), 0..2000))),
                0..40),
            1..8),
    ) {
        let dir = temp();
        let mut store = create_empty(&place(dir.path())).unwrap();
        let mut rows = Rows::new();
        for (round, changes) in rounds.into_iter().enumerate() {
            // A drained state contains each key once.
            let changes: BTreeMap<_, _> = changes.into_iter().collect();
            for (key, value) in &changes {
                match value {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
            let known = applied(round as u64, &rows);
            store.write(changes.into_iter().collect(), &known).unwrap();
            if round % 3 == 2 {
                close(store);
                let (again, found, found_applied) = good(dir.path());
                prop_assert_eq!(&found, &rows);
                prop_assert_eq!(found_applied, known);
                store = again;
            }
        }
        close(store);
        prop_assert_eq!(good(dir.path()).1, rows);
    }
}

#[test]
fn rows_over_the_size_of_sleds_log_messages_come_back() {
    let rows: Rows = (0..20_u8)
        .map(|n| (vec![n], vec![n; 60_000 + usize::from(n)]))
        .collect();
    let dir = written(&rows);
    let (mut store, found, _) = good(dir.path());
    assert_eq!(found, rows);
    let mut changed = rows;
    let largest = (vec![99], vec![1; MAX_ROW_BYTES - 1]);
    changed.insert(largest.0.clone(), largest.1.clone());
    store
        .write(vec![(largest.0, Some(largest.1))], &applied(8, &changed))
        .unwrap();
    assert!(store.disk_bytes() > MAX_ROW_BYTES as u64);
    close(store);
    assert_eq!(good(dir.path()).1, changed);
}
