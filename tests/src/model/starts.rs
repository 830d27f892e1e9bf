//! Processes that are killed, start and are copied, and the restore of a backup as a new cluster.

use seqd_state::Restoration;

use super::action::Event;
use super::ask::Origin;
use super::scene::MARGIN;
use super::step::{Trace, abandon};
use super::world::{Holder, Process, Replicated, World};
use super::{Check, Fault};

impl Check {
    pub(super) fn restart(&self, world: &mut World, process: usize, trace: Trace<'_>) {
        world.left.restarts -= 1;
        abandon(world, process);
        world.nonces += 1;
        let nonce = world.nonces;
        let before = &world.processes[process];
        let (node, boot) = (before.origin.node, before.origin.boot + 1);
        let mut after = Process::new(Origin { node, boot, nonce });
        after.off_ms = before.off_ms;
        self.keep_holder(before, &mut after);
        trace(format_args!("{before} is killed, and {after} starts"));
        world.processes[process] = after;
    }

    pub(super) fn start_twin(&self, world: &mut World, after: bool, trace: Trace<'_>) {
        world.left.twins -= 1;
        world.nonces += 1;
        let nonce = world.nonces;
        let of = &world.processes[0];
        let boot = of.origin.boot + u64::from(after);
        let node = of.origin.node;
        let mut twin = Process::new(Origin { node, boot, nonce });
        twin.is_twin = true;
        self.keep_holder(of, &mut twin);
        trace(format_args!(
            "{twin} starts on a copy of the disk, and {of} goes on"
        ));
        world.processes.push(twin);
    }

    /// A start takes nothing over. With the fault, it creates a generator for the lease that it
    /// finds.
    fn keep_holder(&self, of: &Process, start: &mut Process) {
        let holder = of.holder.as_ref();
        if self.fault == Some(Fault::HolderKept) {
            start.holder = holder.map(|holder| Holder {
                kept: holder.kept.again(),
                ..holder.clone()
            });
        }
    }
}

/// Every process of the old cluster has ended, and the proposals of its nodes are gone. The
/// external generator continues, and its proposals may reach the new cluster.
pub(super) fn restore(world: &mut World, trace: Trace<'_>) {
    let Some(backup) = &world.backup else {
        unreachable!("{:?} without a backup", Event::Restore);
    };
    let mut state = (*backup.state).clone();
    let restoration = Restoration {
        cluster_id: "restored".to_owned(),
        founder: "n1".to_owned(),
        ancestors: Vec::new(),
        floors: [].into(),
        margin: Some(MARGIN),
        written: None,
    };
    let (node, _) = state.restore(&restoration).expect("a backup of a cluster");
    world.replicated = Replicated::new(state, false);
    world.nonces += 1;
    let nonce = world.nonces;
    for process in 0..world.processes.len() {
        let of = &mut world.processes[process];
        if of.origin.node.is_some() {
            let off_ms = of.off_ms;
            let node = Some(node);
            *of = Process::new(Origin {
                node,
                boot: 1,
                nonce,
            });
            of.off_ms = off_ms;
            of.down = process > 0;
        } else {
            abandon(world, process);
        }
    }
    world.strays.retain(|proposal| proposal.by.node.is_none());
    world.ledger.restored();
    trace(format_args!(
        "every node ends, and the backup becomes a cluster of {}",
        world.processes[0]
    ));
}
