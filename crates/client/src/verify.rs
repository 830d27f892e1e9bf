//! Checks whether numbers can be IDs that a cluster minted: their bits, their time, and the holder
//! of their worker at their tick.
//!
//! The numbers are compared with the state of the cluster at one moment, so that a column of
//! millions is checked without a request for each. Duplicates are not detected here.

use std::collections::BTreeMap;

use seqd_api::{Layout as SentLayout, ListQuery, Worker, WorkersQuery};
use seqd_idgen::{Layout, SnowflakeId, Tick, WallMs};

use crate::client::Client;
use crate::definition::{UnknownLayout, layout_of};
use crate::error::Error;

/// The result for a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Finding {
    /// A lease covers its worker and tick.
    Held,
    /// Its time precedes the time since which all leases are recorded, and no recorded lease covers
    /// it.
    Unknown,
    /// It has bits outside the layout.
    Foreign,
    /// Its time is ahead of the node's clock.
    Ahead,
    /// Its worker was leased, but not at its tick.
    WrongWindow,
    /// Its worker was never leased.
    NeverLeased,
}

impl Finding {
    /// The name of the finding.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Foreign => "foreign",
            Self::Ahead => "ahead",
            Self::WrongWindow => "wrong-window",
            Self::NeverLeased => "never-leased",
        }
    }

    /// Returns whether the cluster cannot have minted the number as an ID of the layout.
    #[must_use]
    pub const fn is_wrong(self) -> bool {
        !matches!(self, Self::Held | Self::Unknown)
    }
}

/// A lease: the ticks from `from` up to, but excluding, `fence`.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: Tick,
    fence: Tick,
    holder: usize,
}

/// Compares numbers with the recorded leases of a cluster.
#[derive(Debug, Clone)]
pub struct Verifier {
    layout: Layout,
    /// The leases of each worker, ordered by first tick.
    windows: BTreeMap<u32, Vec<Window>>,
    holders: Vec<String>,
    known_from: Option<WallMs>,
    /// Times after this one are ahead.
    now: WallMs,
    /// `true` if leases are compared. A table that another system filled has no leases in this
    /// cluster.
    with_leases: bool,
}

/// The reason why no verifier can be created.
#[derive(Debug, thiserror::Error)]
pub enum VerifierError {
    /// The cluster did not respond, or refused.
    #[error(transparent)]
    Client(#[from] Error),
    /// The layout is from a later version.
    #[error(transparent)]
    Layout(#[from] UnknownLayout),
}

/// The tolerance for times ahead of the node's clock. It exceeds the differences between the clocks
/// of one cluster.
const AHEAD_MS: u64 = 1000;

impl Verifier {
    /// Creates a verifier for the IDs of this layout from the current state of the cluster. Without
    /// leases, only bits and times are checked, for a table that another system filled.
    ///
    /// # Errors
    /// The cluster did not respond, the layout does not exist, or it is from a later version.
    pub async fn of(
        client: &Client,
        layout: &str,
        with_leases: bool,
    ) -> Result<Self, VerifierError> {
        // Leases are read first. A lease that is granted in the meantime may be missing, but its
        // IDs are younger than the column. A lease that ends in the meantime is in one of the
        // lists.
        let mut workers = Vec::new();
        if with_leases {
            for past in [false, true, false] {
                workers.extend(all(client, layout, past).await?);
            }
        }
        let sent = client.layout(layout, &Default::default()).await?;
        Ok(Self::new(&sent, &workers, with_leases)?)
    }

    /// Creates a verifier for the IDs of a layout from these leases.
    ///
    /// # Errors
    /// The layout is from a later version.
    pub fn new(
        sent: &SentLayout,
        workers: &[Worker],
        with_leases: bool,
    ) -> Result<Self, UnknownLayout> {
        let layout = layout_of(sent)?;
        let mut holders = Vec::new();
        let mut numbers = BTreeMap::new();
        let mut windows: BTreeMap<u32, Vec<Window>> = BTreeMap::new();
        for lease in workers.iter().filter(|lease| lease.layout == sent.name) {
            // An owner outside the cluster may have the name of a node.
            let name = match &lease.node {
                Some(node) => node.clone(),
                None => format!("{} (outside)", lease.owner),
            };
            let holder = *numbers.entry(name.clone()).or_insert_with(|| {
                holders.push(name);
                holders.len() - 1
            });
            windows.entry(lease.id).or_default().push(Window {
                from: Tick(lease.from_tick),
                fence: Tick(lease.fence_tick),
                holder,
            });
        }
        for of_worker in windows.values_mut() {
            // A lease that occurs twice was renewed between the two reads.
            of_worker.sort_by_key(|window| (window.from, window.fence));
        }
        Ok(Self {
            layout,
            windows,
            holders,
            known_from: sent.leases_known_from_ms.map(WallMs),
            now: WallMs(sent.now_ms.unwrap_or(u64::MAX)),
            with_leases,
        })
    }

    /// Checks a number. If it was held, the second value is the index of the holder in
    /// [`Verifier::holders`].
    #[must_use]
    pub fn check(&self, number: u64) -> (Finding, Option<usize>) {
        let Ok(parts) = self.layout.unpack(SnowflakeId::from_u64(number)) else {
            return (Finding::Foreign, None);
        };
        let at = self.layout.wall_at(parts.tick);
        if at.0 > self.now.0.saturating_add(AHEAD_MS) {
            return (Finding::Ahead, None);
        }
        if !self.with_leases {
            return (Finding::Unknown, None);
        }
        let windows = self.windows.get(&parts.worker.0);
        let window = windows.and_then(|windows| {
            let behind = windows.partition_point(|window| window.from <= parts.tick);
            windows[..behind].last()
        });
        if let Some(window) = window.filter(|window| parts.tick < window.fence) {
            return (Finding::Held, Some(window.holder));
        }
        let finding = match (self.known_from, windows) {
            (None, _) => Finding::Unknown,
            (Some(known_from), _) if at < known_from => Finding::Unknown,
            (_, Some(_)) => Finding::WrongWindow,
            (_, None) => Finding::NeverLeased,
        };
        (finding, None)
    }

    /// Returns the nodes by name, and the owners of other leases.
    #[must_use]
    pub fn holders(&self) -> &[String] {
        &self.holders
    }

    /// Returns the layout.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// Returns all leases of a layout: the latest of each worker, or the past ones.
async fn all(client: &Client, layout: &str, past: bool) -> Result<Vec<Worker>, Error> {
    let mut query = WorkersQuery {
        layout: Some(layout.to_owned()),
        past: Some(past),
        limit: Some(ListQuery::MAX_LIMIT),
        ..WorkersQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let page = client.workers(&query).await?;
        all.extend(page.items);
        if page.next_cursor.is_none() {
            return Ok(all);
        }
        if page.next_cursor == query.cursor {
            return Err(Error::BadAnswer {
                endpoint: client.last_answered().to_string(),
                status: 200,
                reason: "the cursor of the next page is that of the same page".to_owned(),
            });
        }
        query.cursor = page.next_cursor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH_MS: u64 = 1_767_225_600_000;

    fn sent() -> SentLayout {
        let text = format!(
            r#"{{"name":"js53","epoch":"","epoch_ms":{EPOCH_MS},"tick_ms":1,"time_bits":41,
            "datacenter_bits":0,"worker_bits":5,"sequence_bits":7,"order":"tick-worker-sequence",
            "exhausted_at":"","workers":32,"ids_per_second":128000,"first_sequence":"zero",
            "leases_known_from_ms":{},"now_ms":{}}}"#,
            EPOCH_MS + 100,
            EPOCH_MS + 10_000
        );
        serde_json::from_str(&text).unwrap()
    }

    fn lease(id: u32, owner: &str, from: u64, fence: u64) -> Worker {
        let text = format!(
            r#"{{"layout":"js53","worker":{id},"datacenter":null,"id":{id},"owner":"{owner}",
            "lease":"1","from_tick":"{from}","fence_tick":"{fence}","fence_time":""}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn id(tick: u64, worker: u64) -> u64 {
        tick << 12 | worker << 7
    }

    #[test]
    fn each_number_is_classified_correctly() {
        let leases = [
            lease(3, "a", 200, 300),
            lease(3, "b", 300, 400),
            lease(3, "a", 500, 600),
            // Renewed while the lists were read.
            lease(3, "a", 500, 700),
        ];
        let verifier = Verifier::new(&sent(), &leases, true).unwrap();
        let found = |number| {
            let (finding, holder) = verifier.check(number);
            (finding, holder.map(|at| verifier.holders()[at].as_str()))
        };
        let held = |owner| (Finding::Held, Some(owner));
        assert_eq!(found(id(200, 3)), held("a (outside)"));
        assert_eq!(found(id(299, 3)), held("a (outside)"));
        assert_eq!(found(id(300, 3)), held("b (outside)"));
        assert_eq!(found(id(650, 3)), held("a (outside)"));
        assert_eq!(found(id(400, 3)), (Finding::WrongWindow, None));
        assert_eq!(found(id(199, 3)), (Finding::WrongWindow, None));
        assert_eq!(found(id(99, 3)), (Finding::Unknown, None));
        assert_eq!(found(id(200, 4)), (Finding::NeverLeased, None));
        assert_eq!(found(id(11_001, 3)), (Finding::Ahead, None));
        assert_eq!(found(1 << 53), (Finding::Foreign, None));
        assert_eq!(found(u64::MAX), (Finding::Foreign, None));
    }

    #[test]
    fn without_leases_bits_and_times_alone_are_compared() {
        let verifier = Verifier::new(&sent(), &[], false).unwrap();
        assert_eq!(verifier.check(id(400, 3)).0, Finding::Unknown);
        assert_eq!(verifier.check(id(11_001, 3)).0, Finding::Ahead);
        assert_eq!(verifier.check(1 << 53).0, Finding::Foreign);
    }

    #[test]
    fn a_layout_of_a_later_version_is_refused() {
        let later = SentLayout {
            first_sequence: "fibonacci".to_owned(),
            ..sent()
        };
        let error = Verifier::new(&later, &[], false).unwrap_err().to_string();
        assert!(error.contains("first_sequence \"fibonacci\""), "{error}");
    }
}
