//! IDs, UUIDs, workers and layouts.

use std::sync::Arc;

use seqd_api::{CreateLayout, IdPartsQuery, IssueTokens, LeaseRequest, ListQuery, WorkersQuery};
use seqd_api::{Typed as _, op};
use seqd_idgen::ClockPolicy;

use super::*;
use crate::replica::layout;
use seqd_state::{AccessId, Share};

impl Story {
    pub(super) fn ids(&self) -> IdService {
        let policy = ClockPolicy::default();
        let clock = Arc::new(ClockWatch::alone(TestClock::at(NOON), policy, None));
        let keeper = self.replica.keeper(&clock, policy);
        let default = layout(&*self.replica, "default").unwrap();
        IdService {
            minters: Arc::new(Minters::start(keeper, default)),
            clock,
            replica: self.replica.clone(),
            max_count: MAX_COUNT,
        }
    }

    fn workers(&self, ids: &IdService) -> WorkerService {
        WorkerService {
            replica: self.replica.clone(),
            clock: Arc::clone(&ids.clock),
            window_ms: 30_000,
            share: Share::WHOLE,
            requested: seqd_net::Lock::default(),
        }
    }

    fn layouts(&self) -> LayoutService {
        LayoutService {
            replica: self.replica.clone(),
            clock: TestClock::at(NOON),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ids_are_minted_within_the_count_and_show_their_holder() {
    let story = Story::begin();
    let ids = story.ids();
    let minter = ids.minter(None).unwrap();
    let too_many = ids.many(&minter, Some(101), soon()).await;
    assert!(matches!(
        too_many,
        Err(ServiceError::Request(RequestError::TooMany { .. }))
    ));
    let minted = ids.many(&minter, Some(3), soon()).await.unwrap();
    let minted: Vec<u64> = minted.ids().collect();
    assert_eq!(minted.len(), 3);
    let (text, query) = (minted[2].to_string(), IdPartsQuery::default());
    let parts = ids.parts(&text, &query, soon()).await.unwrap();
    assert_eq!((parts.id, parts.unix_ms), (minted[2], NOON as i64));
    assert_eq!(parts.holder.unwrap().owner, "n1");
}

/// A node without a quorum may lack leases, so it must not answer that an ID has no origin.
#[tokio::test(start_paused = true)]
async fn an_unissued_id_is_reported_only_with_a_quorum() {
    let story = Story::begin();
    let ids = story.ids();
    let minted = ids.one(&ids.minter(None).unwrap(), soon()).await.unwrap();
    let held = minted.ids().next().unwrap();
    // An ID of the same tick, and of a worker without a holder.
    let other = held ^ (77 << 12);
    let origin = async |id: u64| {
        let (text, query) = (id.to_string(), IdPartsQuery::default());
        let parts = ids.parts(&text, &query, soon()).await.unwrap();
        (
            parts.origin.unwrap(),
            parts.holder.map(|holder| holder.owner),
        )
    };
    let by_n1 = ("held".to_owned(), Some("n1".to_owned()));
    assert_eq!(origin(held).await, by_n1);
    assert_eq!(origin(other).await, ("nobody".to_owned(), None));
    story.replica.set_quorum(false);
    assert_eq!(origin(held).await, by_n1);
    assert_eq!(origin(other).await, ("unknown".to_owned(), None));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_layout_is_refused_with_a_list_of_the_known_ones() {
    let story = Story::begin();
    let ids = story.ids();
    let Err(ServiceError::Request(RequestError::NoLayout { known, .. })) =
        ids.minter(Some("defalt"))
    else {
        panic!("a layout of that name");
    };
    assert!(known.iter().any(|known| known == "default"), "{known:?}");
    let workers = story.workers(&ids);
    let query = WorkersQuery {
        layout: Some("defalt".to_owned()),
        ..WorkersQuery::default()
    };
    assert!(matches!(
        workers.list(&query, soon()).await,
        Err(ServiceError::Request(RequestError::NoLayout { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn the_workers_and_layouts_are_those_of_the_state() {
    let story = Story::begin();
    let ids = story.ids();
    ids.one(&ids.minter(None).unwrap(), soon()).await.unwrap();
    let workers = story.workers(&ids);
    let page = workers.list(&WorkersQuery::default(), soon()).await;
    let page = page.unwrap();
    let [worker] = &page.items[..] else {
        panic!("{page:?}");
    };
    assert_eq!((&*worker.layout, &*worker.owner), ("default", "n1"));
    assert!(worker.live);
    let layouts = story.layouts();
    let first = ListQuery {
        limit: Some(1),
        ..ListQuery::default()
    };
    let page = layouts.list(&first).unwrap();
    assert_eq!((&*page.items[0].name, page.items.len()), ("default", 1));
    assert!(page.next_cursor.is_some());
}

/// Leases of layouts whose names end with characters below and above `/`, in their order.
async fn lease_in_many_layouts(story: &Story, workers: &WorkerService) -> Vec<(String, u32)> {
    let mut leased = Vec::new();
    for layout in ["pa", "pa-b", "pa.c", "pab"] {
        let wanted = CreateLayout {
            name: Some(layout.to_owned()),
            ..CreateLayout::default()
        };
        story.layouts().create(wanted, soon()).await.unwrap();
        for owner in ["one", "two"] {
            let wanted = LeaseRequest {
                layout: Some(layout.to_owned()),
                owner: Some(owner.to_owned()),
                datacenter: None,
            };
            let lease = workers
                .take(wanted, Tenant::OPERATOR, soon())
                .await
                .unwrap();
            leased.push((layout.to_owned(), lease.id));
        }
    }
    leased
}

#[tokio::test(start_paused = true)]
async fn pages_of_workers_follow_each_other_without_a_gap_or_a_repetition() {
    let story = Story::begin();
    let workers = story.workers(&story.ids());
    let leased = lease_in_many_layouts(&story, &workers).await;
    for limit in 1..=9 {
        let mut query = WorkersQuery {
            limit: Some(limit),
            ..WorkersQuery::default()
        };
        let mut listed = Vec::new();
        loop {
            let page = workers.list(&query, soon()).await.unwrap();
            let items = page.items.into_iter();
            listed.extend(items.map(|worker| (worker.layout, worker.id)));
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed, leased, "limit={limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_list_is_refused() {
    let story = Story::begin();
    let workers = story.workers(&story.ids());
    lease_in_many_layouts(&story, &workers).await;
    let of = |past: bool, cursor: Option<String>| WorkersQuery {
        past: past.then_some(true),
        cursor,
        limit: Some(1),
        ..WorkersQuery::default()
    };
    let page = workers.list(&of(false, None), soon()).await.unwrap();
    let cursor = page.next_cursor.unwrap();
    assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let lease = super::super::page::behind("00000000000000000007");
    for query in [of(true, Some(cursor)), of(false, Some(lease))] {
        let refused = workers.list(&query, soon()).await.unwrap_err();
        assert_eq!(refused.to_string(), "cursor does not belong to this list");
    }
}

/// A clock before the epoch of the layout refuses whatever needs an ID or a lease.
#[tokio::test(start_paused = true)]
async fn the_table_of_operations_has_the_codes_of_a_clock_that_is_behind() {
    let story = Story::begin();
    let clock = ClockWatch::alone(TestClock::at(0), ClockPolicy::default(), None);
    let clock = Arc::new(clock);
    let workers = WorkerService {
        clock: Arc::clone(&clock),
        ..story.workers(&story.ids())
    };
    let wanted = LeaseRequest {
        owner: Some("one".to_owned()),
        ..LeaseRequest::default()
    };
    let leased = workers.take(wanted, Tenant::OPERATOR, soon()).await;
    let tokens = OneTimeService {
        replica: story.replica.clone(),
        minters: story.ids().minters,
        clock,
        limits: LIMITS,
        issuing: Places::new(1),
    };
    let wanted = IssueTokens::default();
    let issued = tokens.issue(&wanted, Tenant::OPERATOR, soon()).await;
    for (row, error) in [
        (op::LeaseWorker::ROW, leased.unwrap_err()),
        (op::IssueOneTimeTokens::ROW, issued.unwrap_err()),
    ] {
        assert_eq!(error.code(), ErrorCode::ClockBehind, "{}", row.id);
        assert!(row.codes().contains(&error.code()), "{}", row.id);
    }
}

#[test]
fn a_uuid_has_version_7_or_4() {
    let uuids = UuidService {
        source: UuidSource::default(),
        clock: Arc::new(ClockWatch::alone(
            TestClock::at(NOON),
            ClockPolicy::default(),
            None,
        )),
        max_count: MAX_COUNT,
    };
    for (version, expected) in [(None, 7), (Some(7), 7), (Some(4), 4)] {
        let made = uuids.make(version, Some(2)).unwrap();
        assert!(made.len() == 2 && made.iter().all(|uuid| uuid.get_version_num() == expected));
    }
    let other = uuids.make(Some(5), None).unwrap_err();
    assert_eq!(other.to_string(), "version is 7 or 4, not 5");
    assert!(matches!(
        uuids.make(None, Some(101)),
        Err(ServiceError::Request(RequestError::TooMany { .. }))
    ));
}

#[tokio::test(start_paused = true)]
async fn leases_that_a_tenant_requests_at_once_stay_within_its_share() {
    let story = Story::begin();
    let ids = story.ids();
    let workers = WorkerService {
        share: Share::of_percent(25).unwrap(),
        ..story.workers(&ids)
    };
    let layout = layout(&*story.replica, "default").unwrap();
    let [tenant, other] = [1, 2].map(|id| Tenant::of_token(AccessId(id)));
    let request = |tenant| workers.request_lease(&layout, None, "a", tenant).ok();
    let requested: Vec<_> = (0..400).map_while(|_| request(tenant)).collect();
    assert_eq!(requested.len(), 256, "requests at once exceed the share");
    assert!(request(other).is_some());
    drop(requested);
    assert!(request(tenant).is_some());
    assert!(workers.requested.lock().is_empty());
}
