//! A queue in which tenants take turns.
//!
//! Invariant: for each earlier item of its own tenant, an item waits for at most one item of every
//! other tenant.

use std::collections::{HashMap, VecDeque};

use seqd_guards::is_out;
use seqd_state::Tenant;

/// Items by tenant. Each tenant's items keep their order, and tenants take turns. The owner of the
/// queue bounds its length.
#[derive(Debug)]
pub struct RoundRobin<T> {
    /// The tenants that have items, the next one first.
    turns: VecDeque<Tenant>,
    items: HashMap<Tenant, VecDeque<T>>,
    length: usize,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            items: HashMap::new(),
            length: 0,
        }
    }
}

impl<T> RoundRobin<T> {
    pub fn push(&mut self, tenant: Tenant, item: T) {
        let tenant = if is_out!(TurnsTaken) {
            Tenant::OPERATOR
        } else {
            tenant
        };
        let own = self.items.entry(tenant).or_default();
        if own.is_empty() {
            self.turns.push_back(tenant);
        }
        own.push_back(item);
        self.length += 1;
    }

    /// The item that [`RoundRobin::pop`] returns next.
    #[must_use]
    pub fn peek(&self) -> Option<&T> {
        self.items.get(self.turns.front()?)?.front()
    }

    pub fn pop(&mut self) -> Option<T> {
        let tenant = self.turns.pop_front()?;
        let own = self.items.get_mut(&tenant)?;
        let item = own.pop_front();
        self.length -= 1;
        if own.is_empty() {
            self.items.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        item
    }

    /// Removes the items for which `is_kept` is false.
    pub fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.items.retain(|_, own| {
            own.retain(&is_kept);
            !own.is_empty()
        });
        self.turns.retain(|tenant| self.items.contains_key(tenant));
        self.length = self.items.values().map(VecDeque::len).sum();
    }

    /// The number of items.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The number of tenants that have items.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.turns.len()
    }
}

#[cfg(test)]
mod tests {
    use seqd_state::AccessId;

    use super::*;

    #[test]
    fn tenants_take_turns_and_each_one_s_items_keep_their_order() {
        let [many, few] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
        let mut queue = RoundRobin::default();
        for number in 0..100 {
            queue.push(many, number);
        }
        queue.push(few, 1000);
        queue.push(few, 1001);
        let (tenants, next) = (queue.tenants(), queue.peek().copied());
        let first: Vec<i32> = std::iter::from_fn(|| queue.pop()).take(5).collect();
        assert_eq!(
            first,
            [0, 1000, 1, 1001, 2],
            "one tenant waits for all of another"
        );
        assert_eq!((tenants, next), (2, Some(0)));
        let rest: Vec<i32> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, (3..100).collect::<Vec<i32>>());
        assert_eq!((queue.tenants(), queue.peek()), (0, None));
    }

    #[test]
    fn a_tenant_without_items_after_a_removal_has_no_turn() {
        let [gone, stays] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
        let mut queue = RoundRobin::default();
        for number in [1, 3] {
            queue.push(gone, number);
            queue.push(stays, number + 10);
        }
        queue.retain(|number| *number > 11);
        assert_eq!(
            (queue.length(), queue.tenants(), queue.pop()),
            (1, 1, Some(13))
        );
        queue.push(gone, 5);
        assert_eq!(
            (queue.length(), queue.pop(), queue.pop()),
            (1, Some(5), None)
        );
    }
}
