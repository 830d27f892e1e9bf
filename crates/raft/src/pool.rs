//! A bounded resource of this node that tenants share.
//!
//! Invariants:
//! - All tenants together hold no more than the limit.
//! - A tenant takes more only while [`Share::permits`] allows it. The nodes and the operator may
//!   take as long as anything is free.

use std::collections::HashMap;
use std::sync::Arc;

use seqd_guards::is_out;
use seqd_net::Lock;
use seqd_state::{Share, Tenant};

/// A limit, and the part of it that each tenant holds.
#[derive(Debug)]
pub struct Pool {
    share: Share,
    limit: u64,
    held: Lock<PoolUse>,
}

#[derive(Debug, Default)]
struct PoolUse {
    used: u64,
    by_tenant: HashMap<Tenant, u64>,
}

/// A tenant's part of a [`Pool`], held until it is dropped.
#[derive(Debug)]
pub struct Part {
    pool: Arc<Pool>,
    tenant: Tenant,
    units: u64,
}

impl Pool {
    #[must_use]
    pub fn new(share: Share, limit: u64) -> Arc<Self> {
        Arc::new(Self {
            share,
            limit,
            held: Lock::default(),
        })
    }

    /// Takes `units` units for a tenant; `None` if they are not free, or the tenant has its share.
    #[must_use]
    pub fn take(self: &Arc<Self>, tenant: Tenant, units: u64) -> Option<Part> {
        let mut part = Part {
            pool: Arc::clone(self),
            tenant,
            units: 0,
        };
        part.add(units).then_some(part)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.held.lock().used
    }
}

impl Part {
    /// Takes more units into this part. Returns whether they were free for its tenant.
    #[must_use]
    pub fn add(&mut self, units: u64) -> bool {
        if units == 0 {
            return true;
        }
        let Pool { share, limit, .. } = *self.pool;
        let mut held = self.pool.held.lock();
        let used = held.used;
        let own = held.by_tenant.get(&self.tenant).copied().unwrap_or(0);
        let share = if self.tenant == Tenant::OPERATOR || is_out!(SharesHeld) {
            Share::WHOLE
        } else {
            share
        };
        let is_free = used.checked_add(units).is_some_and(|all| all <= limit);
        if !(is_free && share.permits(own, used, limit)) {
            return false;
        }
        held.used += units;
        held.by_tenant.insert(self.tenant, own + units);
        self.units += units;
        true
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let mut held = self.pool.held.lock();
        held.used = held.used.saturating_sub(self.units);
        if let Some(own) = held.by_tenant.get_mut(&self.tenant) {
            *own = own.saturating_sub(self.units);
            if *own == 0 {
                held.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seqd_state::AccessId;

    use super::*;

    fn tenant(id: u64) -> Tenant {
        Tenant::of_token(AccessId(id))
    }

    #[test]
    fn a_tenant_that_takes_all_it_can_leaves_room_for_others_and_for_the_nodes() {
        let pool = Pool::new(Share::of_percent(25).unwrap(), 1000);
        let mut taken = Vec::new();
        while let Some(part) = pool.take(tenant(1), 1) {
            taken.push(part);
        }
        assert_eq!(taken.len(), 250, "one tenant holds more than its share");
        let mut other = pool.take(tenant(2), 100).unwrap();
        assert!(other.add(50));
        let node = pool.take(Tenant::OPERATOR, 600).unwrap();
        assert!(pool.take(Tenant::OPERATOR, 1).is_none());
        drop((taken, other, node));
        assert_eq!(pool.held.lock().used, 0);
        assert!(pool.held.lock().by_tenant.is_empty());
    }

    #[test]
    fn a_part_without_units_leaves_no_entry() {
        let pool = Pool::new(Share::WHOLE, 10);
        let mut part = pool.take(tenant(1), 0).unwrap();
        assert!(part.add(0));
        drop(part);
        assert!(pool.held.lock().by_tenant.is_empty());
    }

    #[test]
    fn more_than_is_free_is_not_taken() {
        let pool = Pool::new(Share::WHOLE, 10);
        assert!(pool.take(tenant(1), 11).is_none());
        let all = pool.take(tenant(1), 10).unwrap();
        assert!(pool.take(tenant(2), 1).is_none());
        drop(all);
        assert!(pool.take(tenant(2), 10).is_some());
    }
}
