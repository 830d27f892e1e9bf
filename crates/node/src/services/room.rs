//! Checks that a bounded resource has room for a tenant: within the node's limit, and within the
//! tenant's share of it.
//!
//! The check precedes the proposal and uses the state that this node has applied, so a few
//! concurrent requests may exceed a limit.

use seqd_guards::is_out;
use seqd_state::{Share, Tenant, Undrained};

/// The reason why there is no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRoom {
    #[error("the cluster keeps {used} {what}, and limits.{limit_name} permits {limit}{note}")]
    Full {
        what: &'static str,
        limit_name: &'static str,
        used: u64,
        limit: u64,
        note: &'static str,
    },
    #[error(
        "this client holds {held} of the {used} {what} and may hold at most {most} now: \
         limits.tenant_share ({}%) of limits.{limit_name} ({limit}) {}{note}",
        .share.percent(),
        rule(*.share)
    )]
    Share {
        what: &'static str,
        limit_name: &'static str,
        held: u64,
        used: u64,
        /// The number of units that the client may hold, given the present use of all clients.
        most: u64,
        limit: u64,
        share: Share,
        note: &'static str,
    },
    #[error(
        "{rows} records wait for the next checkpoint, {own_rows} of them of this client; retry \
         after it is written"
    )]
    Behind { own_rows: u64, rows: u64 },
}

impl NoRoom {
    /// Replaces the number of units in use, if the check was made with another one.
    pub(crate) fn with_used(mut self, all: u64) -> NoRoom {
        if let Self::Share { used, .. } = &mut self {
            *used = all;
        }
        self
    }

    /// The time after which a client may retry: a checkpoint is written every 50 ms, and most
    /// records expire.
    pub(crate) fn retry_ms(&self) -> u32 {
        match self {
            Self::Behind { .. } => 100,
            Self::Full { .. } | Self::Share { .. } => 10_000,
        }
    }
}

/// The limits of the rows, and of the bytes of clients' records, that wait for the checkpoint.
/// Beyond either limit, a tenant creates no more records if its own are a considerable part of the
/// limit. A checkpoint is one batch of the store, which needs a multiple of its bytes in memory.
const MOST_UNDRAINED_ROWS: u64 = 1024;
const MOST_UNDRAINED_BYTES: u64 = 4 << 20;

/// A considerable part is at least one in this many.
const CONSIDERABLE_PARTS: u64 = 8;

/// A bounded resource.
pub(crate) struct Resource {
    /// The name of the resource's units in messages.
    pub(crate) what: &'static str,
    /// The key of the limit in the section `limits`.
    pub(crate) limit_name: &'static str,
    pub(crate) limit: u64,
    /// A suffix of messages; begins with `; `.
    pub(crate) note: &'static str,
    /// The records of all resources that wait for the checkpoint.
    pub(crate) undrained: Undrained,
}

impl Resource {
    pub(crate) fn new(what: &'static str, limit_name: &'static str, limit: u64) -> Resource {
        Resource {
            what,
            limit_name,
            limit,
            note: "",
            undrained: Undrained::default(),
        }
    }

    /// Adds the records that wait for the checkpoint.
    pub(crate) fn behind(self, undrained: Undrained) -> Resource {
        Resource { undrained, ..self }
    }

    /// Refuses `more` units if all tenants together would hold more than the limit, or this tenant
    /// more than its share. The operator and the nodes have no share.
    pub(crate) fn check(
        &self,
        share: Share,
        tenant: Tenant,
        (held, used, more): (u64, u64, u64),
    ) -> Result<(), NoRoom> {
        let &Resource {
            what,
            limit_name,
            limit,
            note,
            undrained,
        } = self;
        if used.saturating_add(more) > limit {
            return Err(NoRoom::Full {
                what,
                limit_name,
                used,
                limit,
                note,
            });
        }
        let Undrained { rows, own_rows, .. } = undrained;
        if is_behind(undrained) && !is_out!(CheckpointKeepsPace) {
            return Err(NoRoom::Behind { own_rows, rows });
        }
        let before = more.saturating_sub(1);
        let is_permitted = share.permits(held + before, used + before, limit);
        if is_permitted || tenant == Tenant::OPERATOR || is_out!(ShareOfTenant) {
            return Ok(());
        }
        Err(NoRoom::Share {
            what,
            limit_name,
            held,
            used,
            most: share.most(used + before, limit),
            limit,
            share,
            note,
        })
    }
}

/// The meaning of a share, in messages after the share and its limit.
pub(super) fn rule(share: Share) -> &'static str {
    if share.is_fixed() {
        "permits no more"
    } else {
        "is the share of one client, and decreases as others hold more"
    }
}

/// Returns whether a tenant must wait for the checkpoint before it creates more records.
fn is_behind(undrained: Undrained) -> bool {
    let is_much = |all, own, most| all > most && own >= most / CONSIDERABLE_PARTS;
    let Undrained {
        rows,
        bytes,
        own_rows,
        own_bytes,
    } = undrained;
    is_much(rows, own_rows, MOST_UNDRAINED_ROWS) || is_much(bytes, own_bytes, MOST_UNDRAINED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seqd_state::AccessId;

    #[test]
    fn a_tenant_takes_its_share_and_others_have_room() {
        let keys = Resource::new("keys", "keys", 1000);
        let quarter = Share::of_percent(25).unwrap();
        let [one, other] = [7, 8].map(|id| Tenant::of_token(AccessId(id)));
        assert_eq!(keys.check(quarter, one, (249, 249, 1)), Ok(()));
        let refused = keys.check(quarter, one, (250, 250, 1));
        let refused = refused.expect_err("a tenant took more than its share");
        let words = refused.to_string();
        for part in [
            "holds 250 of the 250 keys and may hold at most 250 now",
            "limits.tenant_share (25%) of limits.keys (1000) is the share of one client",
        ] {
            assert!(words.contains(part), "{words}");
        }
        let beside_another = keys.check(quarter, one, (190, 390, 1));
        let words = beside_another.expect_err("others hold much").to_string();
        assert!(words.contains("at most 180 now"), "{words}");
        assert_eq!(keys.check(quarter, other, (0, 250, 1)), Ok(()));
        assert_eq!(keys.check(quarter, Tenant::OPERATOR, (999, 999, 1)), Ok(()));
        let full = keys.check(quarter, Tenant::OPERATOR, (1000, 1000, 1));
        assert!(matches!(full, Err(NoRoom::Full { used: 1000, .. })));
    }

    #[test]
    fn a_tenant_that_made_much_waits_for_the_checkpoint_and_others_do_not() {
        let check = |rows, bytes, own_rows, own_bytes| {
            let undrained = Undrained {
                rows,
                bytes,
                own_rows,
                own_bytes,
            };
            let keys = Resource::new("keys", "keys", 5120).behind(undrained);
            keys.check(Share::WHOLE, Tenant::of_token(AccessId(7)), (0, 0, 257))
        };
        let (rows, bytes) = (MOST_UNDRAINED_ROWS + 1, MOST_UNDRAINED_BYTES + 1);
        let own = [MOST_UNDRAINED_ROWS, MOST_UNDRAINED_BYTES].map(|most| most / CONSIDERABLE_PARTS);
        assert_eq!(check(rows, bytes, own[0] - 1, own[1] - 1), Ok(()));
        assert_eq!(check(rows - 1, bytes - 1, rows - 1, bytes - 1), Ok(()));
        for (own_rows, own_bytes) in [(own[0], 0), (0, own[1])] {
            assert_eq!(
                check(rows, bytes, own_rows, own_bytes),
                Err(NoRoom::Behind { own_rows, rows }),
                "records were made far ahead of the checkpoint"
            );
        }
    }

    #[test]
    fn many_units_at_once_stay_within_the_share() {
        let tokens = Resource::new("one-time tokens", "tokens", 1000);
        let quarter = Share::of_percent(25).unwrap();
        let tenant = Tenant::of_token(AccessId(7));
        assert_eq!(tokens.check(quarter, tenant, (0, 0, 250)), Ok(()));
        assert!(tokens.check(quarter, tenant, (0, 0, 251)).is_err());
    }
}
