//! The load of the runs with random faults, link faults and power cuts: IDs, strict values of
//! `order` and segment values of `ticket`, and the check of all responses.

use std::fmt;

use serde_json::json;

use crate::checkers::{Violation, disjoint, increasing, linearizable, lost, require, unique};
use crate::cluster::{Cluster, READY};
use crate::history::{Doubt, History, Ids, Timeline, Values, doubt, reasons, tally};
use crate::wait;
use crate::workload::{Load, Workload, next_value};

#[derive(Debug)]
pub struct Mixed {
    pub ids: Workload<Ids>,
    pub order: Workload<Values>,
    pub ticket: Workload<Values>,
}

#[derive(Debug, Default)]
pub struct Histories {
    pub ids: History<Ids>,
    pub order: History<Values>,
    ticket: History<Values>,
}

/// The number of IDs and values in the responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    pub ids: u64,
    pub strict: u64,
    pub segment: u64,
}

pub fn create(cluster: &Cluster) {
    cluster.create_sequence(0, "order", &json!({"mode": "strict"}));
    cluster.create_sequence(0, "ticket", &json!({"segment": {"min": 20, "max": 500}}));
}

impl Mixed {
    pub fn begin(timeline: Timeline, [ids, order, ticket]: [Load; 3]) -> Self {
        Self {
            ids: Workload::ids(ids, timeline),
            order: Workload::next(order, timeline, "order"),
            ticket: Workload::next(ticket, timeline, "ticket"),
        }
    }

    pub fn finish(self) -> Histories {
        Histories {
            ids: self.ids.finish(),
            order: self.order.finish(),
            ticket: self.ticket.finish(),
        }
    }
}

impl Histories {
    /// Appends later histories, with these doubts applied to them.
    pub fn extend(&mut self, mut later: Histories, doubts: &[Doubt]) {
        doubt(&mut later.ids, doubts);
        doubt(&mut later.order, doubts);
        doubt(&mut later.ticket, doubts);
        self.ids.extend(later.ids);
        self.order.extend(later.order);
        self.ticket.extend(later.ticket);
    }

    /// Requests another value from the healthy cluster, and checks everything.
    pub fn check(&mut self, cluster: &Cluster, timeline: Timeline) -> Result<Given, Violation> {
        let mut next = None;
        wait::within(READY, || {
            let asked = next_value(cluster, 0, "order", timeline);
            next = asked.runs().first().map(|run| run.first);
            self.order.push(asked);
            next
        });
        let detail = format!("the sequence does not go on: {:?}", reasons(&self.order));
        require(next.is_some(), "no lost acknowledgement", detail)?;
        lost::strict(&self.order, 1, next.unwrap_or_default() + 1)?;
        increasing::ids_per_worker(&self.ids)?;
        let given = Given {
            ids: unique::numbers(&self.ids)?,
            strict: linearizable::strict(&self.order)?,
            segment: disjoint::segments(&self.ticket, 1, i64::MAX)?,
        };
        let all: Vec<usize> = (0..cluster.size()).collect();
        cluster.wait_same_state(&all);
        Ok(given)
    }
}

/// The outcomes of the requests.
impl fmt::Display for Histories {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tallies = [tally(&self.ids), tally(&self.order), tally(&self.ticket)];
        write!(
            out,
            "IDs, order, ticket as (ok, unknown, refused): {tallies:?}; "
        )?;
        write!(out, "{:?} {:?}", reasons(&self.ids), reasons(&self.order))
    }
}
