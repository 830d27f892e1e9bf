//! The transfer of rows from the thread that reads a store to the thread that loads them.

use super::super::take_rows::take_all;
use super::*;

/// Rows for many batches, more than may wait.
const MANY: u32 = 20_000;

/// Rejects one row and loads all others.
#[derive(Default)]
struct AllButOne(Rows);

impl TakeRows for AllButOne {
    fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> io::Result<()> {
        if key == b"seq/15000" {
            return Err(io::Error::other("refused"));
        }
        self.0.hashed_row(key, value, hash)
    }
}

/// A store whose reading fails or panics after this many rows.
struct Fails {
    after: u32,
    panics: bool,
}

impl StateStore for Fails {
    fn applied(&self) -> Option<Checkpoint> {
        None
    }

    fn write(&mut self, _: Vec<Change>, _: &Checkpoint) -> io::Result<()> {
        Ok(())
    }

    fn fill(
        &mut self,
        _: &mut RowSource<'_>,
        _: &Checkpoint,
        _: &mut Between<'_>,
    ) -> io::Result<()> {
        Ok(())
    }

    fn stream(&self, visit: &mut VisitRow<'_>) -> io::Result<()> {
        for (key, value) in some_rows(self.after, 1) {
            visit(&key, &value)?;
        }
        assert!(!self.panics, "as sled panics");
        Err(io::Error::other("the disk does not read"))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}

#[test]
fn all_rows_arrive_whether_they_are_few_or_many() {
    for count in [0, 1, 1_000, MANY] {
        let rows = some_rows(count, 1);
        let dir = written(&rows);
        let (_store, found, record) = good(dir.path());
        assert!(found == rows, "{count} rows, {} arrived", found.len());
        assert_eq!(record, applied(7, &rows));
    }
}

#[test]
fn a_row_that_is_refused_does_not_end_the_count_of_the_others() {
    let rows = some_rows(MANY, 1);
    let dir = written(&rows);
    let (store, _, record) = good(dir.path());
    let taken = take_all::<AllButOne>(&*store).unwrap();
    taken.tally.expect(record.digest).unwrap();
    assert_eq!(taken.refused.unwrap().to_string(), "refused");
    assert_eq!(taken.rows.0.len(), 15_000);
}

#[test]
fn a_store_that_cannot_be_read_to_its_end_leaves_no_thread_waiting() {
    for after in [1, MANY] {
        let fails = Fails {
            after,
            panics: false,
        };
        let error = take_all::<Rows>(&fails).err().unwrap();
        assert_eq!(error.to_string(), "the disk does not read");
        let fails = Fails {
            after,
            panics: true,
        };
        let ended = guarded("reading", || take_all::<Rows>(&fails).map(drop)).unwrap_err();
        assert!(ended.to_string().contains("as sled panics"), "{ended}");
    }
}
