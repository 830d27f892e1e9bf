//! The state as rows of bytes, which a checkpoint stores, a snapshot carries and a digest covers.
//!
//! A row's key begins with the prefix of its table. Its value is one whole encoded record.

use crate::level::Level;
use crate::newtypes::Digest;
use crate::row::{Changes, Row, RowError, Undrained, row_hash};
use crate::state::State;
use crate::tenant::Tenant;

impl State {
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.tables.rows()
    }

    /// Returns the rows that changed since the last call, and the digest after these changes.
    pub fn drain_changes(&mut self) -> Changes {
        let mut rows = Vec::new();
        self.tables.drain(&mut rows);
        Changes {
            rows,
            digest: self.digest(),
        }
    }

    /// Returns the size of the changes since the last drain, in all and for `tenant`.
    #[must_use]
    pub fn undrained(&self, tenant: Tenant) -> Undrained {
        self.tables.undrained(tenant)
    }

    /// Returns the digest of all rows, including changes that have not been drained yet.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest(self.tables.hash_sum())
    }

    /// Loads the rows of [`State::rows`], in any order. The caller compares the digest to detect
    /// missing rows.
    pub fn from_rows(rows: impl IntoIterator<Item = Row>) -> Result<Self, RowError> {
        let mut loader = StateLoader::default();
        for (key, value) in rows {
            loader.row(&key, &value)?;
        }
        Ok(loader.finish())
    }
}

/// Loads a state row by row, so that only the state itself takes memory.
#[derive(Debug, Default)]
pub struct StateLoader {
    state: State,
}

impl StateLoader {
    /// Adds a row; the order does not matter. After an error the loader must be dropped.
    pub fn row(&mut self, key: &[u8], value: &[u8]) -> Result<(), RowError> {
        self.hashed_row(key, value, row_hash(key, value))
    }

    /// Like [`StateLoader::row`], for a caller that has already computed the [`row_hash`].
    pub fn hashed_row(&mut self, key: &[u8], value: &[u8], hash: u128) -> Result<(), RowError> {
        self.state.tables.restore(key, value, hash)?;
        // The row of the level sorts before the rows of tables that a later level introduces.
        let found = self.state.level();
        let known = Level::highest();
        if found > known {
            return Err(RowError::NewerLevel { found, known });
        }
        Ok(())
    }

    #[must_use]
    pub fn finish(mut self) -> State {
        let level = self.state.level();
        self.state.tables.set_level(level);
        self.state.derive();
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::level::LevelRecord;
    use crate::codec::encode;
    use crate::testing::founded;

    #[test]
    fn rows_of_a_newer_level_are_those_of_a_newer_program() {
        let level = Level::NEWEST.next();
        let row = (b"e".to_vec(), encode(&LevelRecord { level }).unwrap());
        let error = State::from_rows(founded().rows().chain([row])).unwrap_err();
        assert!(error.is_newer(), "{error}");
    }
}
