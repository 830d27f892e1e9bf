//! When a restored cluster began: said once, by its first leader, as soon as its clock can be
//! believed.
//!
//! Every window of the new cluster begins past that time, so a clock that is behind would let an
//! old window in. The leader waits until its clock is past the backup's last entry and agrees with
//! the clocks of all other voters; a lone voter has nobody to compare with.

use std::time::Duration;

use seqd_state::Command;
use tokio::time::Instant;

use crate::local::Local;
use crate::replica::Replica;

/// How far a peer's clock is ahead of this node's, by one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    /// Milliseconds; negative if it is behind.
    pub(crate) ms: i64,
    /// By how much that may be wrong: the answer may have been written at either end of the
    /// exchange.
    pub(crate) uncertain_ms: u64,
    /// When it was seen.
    pub(crate) seen: Instant,
}

impl ClockOffset {
    /// From an answer that took `took`: it was written half-way, as far as anyone can tell.
    pub(crate) fn of_answer(asked_wall_ms: u64, took: Duration, answered_wall_ms: u64) -> Self {
        let half_ms = u64::try_from(took.as_millis() / 2).unwrap_or(u64::MAX);
        let written = asked_wall_ms.saturating_add(half_ms);
        Self {
            ms: answered_wall_ms.wrapping_sub(written).cast_signed(),
            uncertain_ms: half_ms.saturating_add(1),
            seen: Instant::now(),
        }
    }

    fn is_within(self, limit_ms: u64) -> bool {
        self.ms.unsigned_abs().saturating_add(self.uncertain_ms) <= limit_ms
    }
}

/// The leader's wait for a clock that can be believed; it says each reason once.
#[derive(Default)]
pub(crate) struct Stamping {
    told: Option<String>,
}

impl Stamping {
    /// The stamp, if one is missing and the clock can be believed.
    pub(crate) fn due(&mut self, local: &Local, replica: &Replica) -> Option<Command> {
        let wall_ms = local.settings.clock.wall();
        let (backup_wall_ms, skew_ms, voters) = {
            let core = replica.applied.read();
            let record = core.state.restoration().filter(|record| !record.stamped)?;
            let skew_ms = core.state.settings()?.max_peer_skew_ms;
            let voters: Vec<u64> = core.membership.voter_ids().collect();
            (record.backup_wall_ms, skew_ms, voters)
        };
        let behind_ms = backup_wall_ms.0.saturating_sub(wall_ms.0);
        if behind_ms > 0 {
            self.tell(
                "behind",
                format!("this clock is {behind_ms} ms behind the backup's last entry"),
            );
            return None;
        }
        for voter in voters.into_iter().filter(|voter| *voter != replica.node) {
            let name = replica.member(voter).map_or(String::new(), |m| m.name);
            match local.peer(voter).clock_offset() {
                None => {
                    self.tell(&name, format!("the clock of {name} is not known yet"));
                    return None;
                }
                Some(offset) if !offset.is_within(skew_ms) => {
                    let ClockOffset {
                        ms, uncertain_ms, ..
                    } = offset;
                    let reason = format!(
                        "the clock of {name} is {ms} ms ahead (give or take {uncertain_ms} ms), \
                         the limit is {skew_ms} ms"
                    );
                    self.tell(&format!("{name} off"), reason);
                    return None;
                }
                Some(_) => {}
            }
        }
        tracing::info!(
            wall_ms = wall_ms.0,
            "this cluster was restored: it begins now"
        );
        Some(Command::StampRestoration { wall_ms })
    }

    fn tell(&mut self, what: &str, reason: String) {
        if self.told.as_deref() != Some(what) {
            self.told = Some(what.to_owned());
            tracing::warn!(%reason, "this cluster was restored, and cannot begin yet");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_taken_as_written_half_way() {
        let took = Duration::from_millis(40);
        let ahead = ClockOffset::of_answer(1_000, took, 1_520);
        assert_eq!((ahead.ms, ahead.uncertain_ms), (500, 21));
        assert!(ahead.is_within(521) && !ahead.is_within(520));
        let behind = ClockOffset::of_answer(1_000, took, 920);
        assert_eq!(behind.ms, -100);
        assert!(behind.is_within(121) && !behind.is_within(120));
    }
}
