//! Loads the rows of a snapshot into the state and into a new generation of the store.

use std::io;

use seqd_state::{State, StateLoader};

use super::{SnapshotFile, SnapshotReader};
use crate::checkpoint::{self, Between, Checkpoint, NotMade, Place, StateStore, TakeRows};

/// Builds the state and a new generation of the store from a snapshot, in two passes over the file.
/// In addition to the state itself, only one block and one batch are in memory.
pub fn load(file: &SnapshotFile, place: &Place) -> io::Result<(State, Box<dyn StateStore>)> {
    let rows = || SnapshotReader::open(&*place.disk, &file.path).map(SnapshotReader::rows);
    let mut loader = StateLoader::default();
    rows()?.visit(&mut |key, value| TakeRows::row(&mut loader, key, value))?;
    let store = checkpoint::create_generation(place, rows()?, &position(file))?;
    Ok((loader.finish(), store))
}

/// Builds a new generation of the store from a snapshot. `between` is called for each written row,
/// and for each row that is read again for the comparison.
pub fn rebuild(
    file: &SnapshotFile,
    place: &Place,
    between: &mut Between<'_>,
) -> Result<Box<dyn StateStore>, NotMade> {
    let reader = SnapshotReader::open(&*place.disk, &file.path);
    let rows = reader.map_err(NotMade::Unchanged)?.rows();
    checkpoint::rebuild_generation(place, rows, &position(file), between)
}

fn position(file: &SnapshotFile) -> Checkpoint {
    Checkpoint {
        index: file.index,
        log_id: file.log_id.clone(),
        membership: file.membership.clone(),
        digest: file.digest,
    }
}
