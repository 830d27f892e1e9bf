//! Compares the result of an opening with the model.

use std::path::Path;

use seqd_disk::Disk;
use seqd_disk::simulated::SimulatedDisk;

use super::Plant;
use super::cluster::Cluster;
use super::expected::Expected;
use super::life::Life;
use super::node::{Node, Opened, ROOT};
use crate::types::LogId;
use seqd_store::snapshot_file;

/// Compares the result of an opening, and adopts it as the model's state.
pub(super) fn check(life: &mut Life, node: &mut Node, opened: &Opened) -> Result<(), String> {
    small_files(&mut life.expected, opened)?;
    let found = node
        .content()
        .map_err(|error| format!("the log cannot be read: {error}"))?;
    life.log.settle(found)?;
    position(life, opened)?;
    snapshots(life, node)?;
    leftovers(&life.disk)?;
    if life.dice.chance(2) {
        rebuilding(life)?;
    }
    Ok(())
}

fn small_files(expected: &mut Expected, opened: &Opened) -> Result<(), String> {
    let is_old = opened.identity == expected.identity;
    let is_new = opened.identity.is_some() && opened.identity == expected.identity_next;
    if !is_old && !is_new {
        return Err(format!(
            "the identity is {:?}, acknowledged was {:?}",
            opened.identity, expected.identity
        ));
    }
    expected.identity = opened.identity.clone();
    expected.identity_next = None;
    if opened.boot <= expected.boot {
        return Err(format!(
            "boot number {} after {}",
            opened.boot, expected.boot
        ));
    }
    expected.boot = opened.boot;
    Ok(())
}

fn position(life: &mut Life, opened: &Opened) -> Result<(), String> {
    if opened.rebuilt {
        return Err("the checkpoint was lost, and the state rebuilt".to_owned());
    }
    let (least, most) = (life.expected.checkpoint, life.expected.furthest);
    if opened.position < least || opened.position > most {
        return Err(format!(
            "the checkpoint is at {:?}, it was written at {least:?} and applied up to {most:?}",
            opened.position
        ));
    }
    state_is_that_of(&life.cluster, opened.position, opened.digest)?;
    if let Some(known) = opened
        .position
        .and_then(|id| life.cluster.at(id.index()))
        .filter(|known| known.membership != opened.membership)
    {
        return Err(format!(
            "the membership is {}, it was {}",
            opened.membership, known.membership
        ));
    }
    life.expected.checkpoint = opened.position;
    Ok(())
}

/// Checks that a digest is that of the committed entries up to `applied`.
pub(super) fn state_is_that_of(
    cluster: &Cluster,
    applied: Option<LogId>,
    digest: u128,
) -> Result<(), String> {
    let Some(applied) = applied else {
        let empty = seqd_state::State::default().digest().0;
        return if digest == empty {
            Ok(())
        } else {
            Err("a state without a position is not empty".to_owned())
        };
    };
    match cluster.at(applied.index()) {
        Some(known) if known.entry.log_id == applied && known.digest == digest => Ok(()),
        _ => Err(format!(
            "the state at {applied} is not that of the committed entries"
        )),
    }
}

fn snapshots(life: &mut Life, node: &Node) -> Result<(), String> {
    let listed = snapshot_file::list(node.folder.disk().as_ref(), &node.folder.snapshots())
        .map_err(|error| format!("the snapshots cannot be listed: {error}"))?;
    for file in &listed {
        let known = life.cluster.at(file.index);
        if known.is_none_or(|known| known.digest != file.digest) {
            return Err(format!(
                "the snapshot at {} is not of the state there",
                file.index
            ));
        }
    }
    let newest = listed.first().map(|file| file.index);
    let acknowledged = life.expected.snapshot.map(|id| id.index());
    if newest < acknowledged {
        return Err(format!(
            "the newest snapshot is at {newest:?}, one at {acknowledged:?} was there"
        ));
    }
    // After an installed snapshot, the log is not needed. Otherwise, the older snapshot must be
    // usable, too.
    let is_installed = newest.is_some_and(|index| life.expected.installed.contains(&index));
    let needed = match listed.get(1) {
        Some(older) if !is_installed => Some(older.index),
        _ => newest,
    };
    let purged = life.log.now.purged.map(|id| id.index());
    if purged > needed {
        return Err(format!(
            "the log is purged up to {purged:?}, snapshots reach back to {needed:?}"
        ));
    }
    life.expected.snapshot = newest.and_then(|index| life.cluster.id(index));
    Ok(())
}

/// Checks that nothing of an interrupted write remains after an opening.
fn leftovers(disk: &SimulatedDisk) -> Result<(), String> {
    let root = Path::new(ROOT);
    let list = |path: &Path| disk.list(path).unwrap_or_default();
    let names = list(root);
    let states = names.iter().filter(|name| name.starts_with("state-"));
    if states.count() != 1 {
        return Err(format!("more than one state folder: {names:?}"));
    }
    for folder in ["", "snap", "wal"] {
        let found = list(&root.join(folder));
        let mut left = found
            .iter()
            .filter(|name| name.ends_with(".tmp") || name.ends_with(".bad"));
        if let Some(left) = left.next() {
            return Err(format!("{folder}/{left} was left over"));
        }
    }
    Ok(())
}

/// Checks that the state can be rebuilt without the checkpoint, and sometimes without the newest
/// snapshot.
fn rebuilding(life: &mut Life) -> Result<(), String> {
    let disk = life.disk.kept();
    let root = Path::new(ROOT);
    let names = disk.list(root).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with("state-")) {
        disk.delete(root.join(name));
    }
    let snap = root.join("snap");
    let listed = snapshot_file::list(&disk, &snap).unwrap_or_default();
    let newest = listed.first();
    let is_damaged = newest.is_some_and(|newest| {
        let is_installed = life.expected.installed.contains(&newest.index);
        listed.len() > 1 && !is_installed && life.dice.chance(8)
    });
    if let Some(newest) = newest
        && is_damaged
    {
        disk.edit(&newest.path, |bytes| bytes[20] ^= 1);
    }
    let from = listed.get(usize::from(is_damaged)).map(|file| file.index);
    let (mut node, opened) = Node::open(&disk, &life.seeds, Plant::Nothing)
        .map_err(|stop| format!("it cannot be rebuilt: {}: {}", stop.code(), stop.message))?;
    if !opened.rebuilt || opened.position.map(|id| id.index()) != from {
        return Err(format!(
            "rebuilt: {}, at {:?}, the snapshot is at {from:?}",
            opened.rebuilt, opened.position
        ));
    }
    state_is_that_of(&life.cluster, opened.position, opened.digest)?;
    node.start(&mut |_| {})
        .map_err(|error| format!("a rebuilt state cannot go on: {error}"))?;
    state_is_that_of(&life.cluster, node.applied(), node.digest())?;
    node.disk.switch_off();
    Ok(())
}
