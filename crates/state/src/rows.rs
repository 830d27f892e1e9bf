//! The state as rows of bytes: what a checkpoint stores, a snapshot carries, and a digest covers.
//!
//! A row's key begins with a byte that names the kind of record; its value is the record in the
//! crate's codec. No record is split over rows, so a row is written whole or not at all.

use crate::level::Level;
use crate::newtypes::Digest;
use crate::row::{Changes, Row, RowError, row_hash};
use crate::state::State;

impl State {
    /// All rows, in the order of their keys.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.tables.rows()
    }

    /// The rows that changed since this was last called, and the digest after them.
    pub fn drain_changes(&mut self) -> Changes {
        let mut rows = Vec::new();
        self.tables.drain(&mut rows);
        Changes {
            rows,
            digest: self.digest(),
        }
    }

    /// The digest of all rows, changes that were not taken yet included.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest(self.tables.hash_sum())
    }

    /// The state that [`State::rows`] gave the rows of, in whatever order they come. All of its
    /// changes count as taken.
    ///
    /// # Errors
    /// [`RowError`] at the first row that does not belong to a state. That no row is missing is
    /// for the caller to check, by the digest.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Result<Self, RowError> {
        let mut loader = StateLoader::default();
        for (key, value) in rows {
            loader.row(&key, &value)?;
        }
        Ok(loader.finish())
    }
}

/// Builds a state from its rows, one at a time: nothing but the state itself takes memory.
#[derive(Debug, Default)]
pub struct StateLoader {
    state: State,
}

impl StateLoader {
    /// Takes one of the rows that [`State::rows`] gave, in whatever order.
    ///
    /// # Errors
    /// [`RowError`] if it does not belong to a state; the loader is of no use then.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.hashed_row(key, value, row_hash(key, value))
    }

    /// [`StateLoader::row`] for who has the row's [`row_hash`] already.
    ///
    /// # Errors
    /// As [`StateLoader::row`].
    pub fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> Result<(), RowError> {
        self.state.tables.restore(key, value, hash)?;
        // Its row sorts before those of the tables that a level can bring.
        let found = self.state.level();
        if found > Level::NEWEST {
            let known = Level::NEWEST;
            return Err(RowError::NewerLevel { found, known });
        }
        Ok(())
    }

    /// The state. All of its changes count as taken.
    #[must_use]
    pub fn finish(mut self) -> State {
        let level = self.state.level();
        self.state.tables.set_level(level);
        self.state.find_deadlines();
        self.state
    }
}
