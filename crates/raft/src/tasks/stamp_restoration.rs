//! The time at which a restored cluster begins. Its first leader proposes it once, as soon as its
//! clock is known to be right.
//!
//! Every window of the new cluster begins after that time, so a clock that is behind would let a
//! new window overlap an old one. The leader waits until its clock is past the backup's last entry
//! and agrees with the clocks of all other voters. A lone voter has no other clock to compare.

use seqd_state::{ClusterCommand, Command};

use crate::clocks::distance;
use crate::context::NodeContext;
use crate::replica::Replica;

/// The leader's wait for a clock that agrees with the others'; each reason is logged once.
#[derive(Default)]
pub(crate) struct RestorationStamp {
    logged: Option<String>,
}

impl RestorationStamp {
    /// The command, if the stamp is missing and the clock agrees.
    pub(crate) fn due(&mut self, context: &NodeContext, replica: &Replica) -> Option<Command> {
        let wall_ms = context.settings.clock.wall();
        let (backup_wall_ms, skew_ms, voters) = {
            let core = replica.applied.read();
            let record = core.state.restoration().filter(|record| !record.stamped)?;
            let skew_ms = core.state.settings()?.max_peer_skew_ms;
            let voters: Vec<u64> = core.membership.voter_ids().collect();
            (record.backup_wall_ms, skew_ms, voters)
        };
        let behind_ms = backup_wall_ms.0.saturating_sub(wall_ms.0);
        if behind_ms > 0 {
            self.log(
                "behind",
                format!("this clock is {behind_ms} ms behind the backup's last entry"),
            );
            return None;
        }
        for voter in voters.into_iter().filter(|voter| *voter != replica.node) {
            let name = replica.member(voter).map_or(String::new(), |m| m.name);
            match context.peer(voter).clock() {
                None => {
                    self.log(&name, format!("the clock of {name} is not measured yet"));
                    return None;
                }
                Some(measured) if !context.is_within(measured, skew_ms) => {
                    let distance = distance(context.ahead_ms(measured));
                    let uncertain_ms = measured.line.uncertain_ms;
                    let reason = format!(
                        "the clock of {name} is {distance} this node's (give or take \
                         {uncertain_ms} ms); the limit is {skew_ms} ms"
                    );
                    self.log(&format!("{name} off"), reason);
                    return None;
                }
                Some(_) => {}
            }
        }
        tracing::info!(
            wall_ms = wall_ms.0,
            "this cluster was restored: it begins now"
        );
        Some(Command::Cluster(ClusterCommand::StampRestoration {
            wall_ms,
        }))
    }

    fn log(&mut self, what: &str, reason: String) {
        if self.logged.as_deref() != Some(what) {
            self.logged = Some(what.to_owned());
            tracing::warn!(%reason, "this cluster was restored and cannot begin yet");
        }
    }
}
