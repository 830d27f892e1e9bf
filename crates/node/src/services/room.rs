//! Room for one tenant more of a bounded resource: what the node's limits leave, and the tenant's
//! share of it.
//!
//! It is looked at before anything is proposed, in what this node has applied: a few requests that
//! are under way at once may go beyond it.

use seqd_guards::is_out;
use seqd_state::{SMALL_PARTS, Share, Tenant};

/// Why there is no room.
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
        "this client holds {held} of the {used} {what}: limits.tenant_share ({}%) of \
         limits.{limit_name} ({limit}) leaves it no more{note}",
        .share.percent()
    )]
    Share {
        what: &'static str,
        limit_name: &'static str,
        held: u64,
        used: u64,
        limit: u64,
        share: Share,
        note: &'static str,
    },
    #[error("{rows} records wait for the next checkpoint, which is written first")]
    Behind { rows: usize },
}

/// Rows that wait for the checkpoint, beyond which a tenant that holds much makes no others. A checkpoint
/// is one batch of the store, which needs a multiple of its bytes in memory.
const MOST_CHANGED_ROWS: usize = 2048;

/// A bounded resource.
pub(crate) struct Resource {
    /// Its units, as a message names them.
    pub(crate) what: &'static str,
    /// The key of the limit in the section `limits`.
    pub(crate) limit_name: &'static str,
    pub(crate) limit: u64,
    /// What a message adds; begins with `; `.
    pub(crate) note: &'static str,
    /// Rows of all resources that wait for the checkpoint.
    pub(crate) changed_rows: usize,
}

impl Resource {
    pub(crate) fn new(what: &'static str, limit_name: &'static str, limit: u64) -> Resource {
        Resource {
            what,
            limit_name,
            limit,
            note: "",
            changed_rows: 0,
        }
    }

    /// The same while so many rows wait for the checkpoint.
    pub(crate) fn behind(self, changed_rows: usize) -> Resource {
        Resource {
            changed_rows,
            ..self
        }
    }

    /// Refuses `more` units where all tenants together would hold more than the limit, or this one
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
            changed_rows: rows,
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
        let is_small = more == 1 && held < limit / SMALL_PARTS;
        if rows > MOST_CHANGED_ROWS && !is_small && !is_out!(CheckpointKeepsPace) {
            return Err(NoRoom::Behind { rows });
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
            limit,
            share,
            note,
        })
    }
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
            "holds 250 of the 250 keys",
            "limits.tenant_share (25%)",
            "limits.keys (1000)",
        ] {
            assert!(words.contains(part), "{words}");
        }
        assert_eq!(keys.check(quarter, other, (0, 250, 1)), Ok(()));
        assert_eq!(keys.check(quarter, Tenant::OPERATOR, (999, 999, 1)), Ok(()));
        let full = keys.check(quarter, Tenant::OPERATOR, (1000, 1000, 1));
        assert!(matches!(full, Err(NoRoom::Full { used: 1000, .. })));
    }

    #[test]
    fn a_tenant_that_holds_much_waits_for_the_checkpoint_and_others_do_not() {
        let behind = || Resource::new("keys", "keys", 5120).behind(MOST_CHANGED_ROWS + 1);
        let tenant = Tenant::of_token(AccessId(7));
        let check = |held, more| behind().check(Share::WHOLE, tenant, (held, held, more));
        assert_eq!(check(9, 1), Ok(()));
        let rows = MOST_CHANGED_ROWS + 1;
        for (held, more) in [(10, 1), (0, 2)] {
            let refused = check(held, more);
            assert_eq!(
                refused,
                Err(NoRoom::Behind { rows }),
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
