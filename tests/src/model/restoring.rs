//! The restore of a backup as a new cluster.

use seqd_state::Restoration;

use super::action::Event;
use super::ask::Origin;
use super::scene::MARGIN;
use super::step::{Tell, abandon, unshared};
use super::world::{Process, Replicated, World};

/// Every process of the old cluster has ended, and what its nodes proposed with it. The external
/// generator goes on, and what it proposed may reach the new cluster.
pub(super) fn restore(world: &mut World, tell: Tell<'_>) {
    let Some(backup) = &world.backup else {
        unreachable!("{:?} without a backup", Event::Restore);
    };
    let mut state = unshared(backup);
    let restoration = Restoration {
        cluster_id: "restored".to_owned(),
        founder: "n1".to_owned(),
        ancestors: Vec::new(),
        floors: [].into(),
        margin: Some(MARGIN),
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
    tell(format_args!(
        "every node ends, and the backup becomes a cluster of {}",
        world.processes[0]
    ));
}
