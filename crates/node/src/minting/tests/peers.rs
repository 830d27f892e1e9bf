//! The peers' clocks decide whether a node mints; a change takes effect at once, in both
//! directions.

use seqd_idgen::{Agreement, Line};
use seqd_raft::Clocks;
use tokio::sync::watch;

use super::*;

const LIMIT_MS: u64 = 500;

/// The agreement of three voters' clocks. This node's clock and another are ahead of the correct
/// time by these amounts. With `None`, the other two clocks are unknown.
fn agreement(own_ahead_ms: i64, other_ahead_ms: Option<i64>) -> Agreement {
    let line = |ahead_ms: i64| Line {
        ms: NOON as i64 + ahead_ms,
        uncertain_ms: 1,
    };
    let known = [
        Some(own_ahead_ms),
        other_ahead_ms,
        other_ahead_ms.map(|_| 0),
    ];
    let known: Vec<Line> = known.into_iter().flatten().map(line).collect();
    Agreement::of(3, &known, LIMIT_MS)
}

/// A node whose peers' clocks have this agreement.
fn among(agreement: Agreement) -> (Story, watch::Sender<Clocks>) {
    among_with(agreement, None)
}

/// The same, with the mark of the last start.
fn among_with(agreement: Agreement, mark: Option<StoredMark>) -> (Story, watch::Sender<Clocks>) {
    let mut clocks = Clocks::alone();
    (clocks.is_alone, clocks.agreement) = (false, agreement);
    let (said, peers) = watch::channel(clocks);
    let clock = TestClock::at(NOON);
    let replica = TestReplica::founded(TestClock::at(NOON), WINDOW_MS);
    let policy = ClockPolicy::default();
    let watch = ClockWatch::new(clock.clone(), policy, mark, peers);
    (Story::watched(clock, replica, watch, policy), said)
}

impl Story {
    /// Changes the agreement of the peers' clocks.
    fn hears(&self, said: &watch::Sender<Clocks>, agreement: Agreement) {
        said.send_modify(|clocks| clocks.agreement = agreement);
        self.watch.judge(self.watch.wall());
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_a_majority_does_not_agree_with_mints_nothing_inside_its_window() {
    let (story, said) = among(agreement(0, Some(0)));
    story.mint(1).await.unwrap();
    // The clock is ahead, but well inside the window.
    story.clock.step(5_000);
    let refused = story.code().await;
    assert_eq!(
        refused,
        Some(ErrorCode::ClockSkewed),
        "minted by a wrong clock"
    );
    let words = story.mint(1).await.unwrap_err().to_string();
    assert!(words.contains(" ms ahead of a majority"), "{words}");
    story.hears(&said, agreement(5_000, Some(0)));
    assert_eq!(story.code().await, Some(ErrorCode::ClockSkewed));
    story.clock.step(-4_990);
    story.mint(1).await.unwrap();
}

/// Before the last start, the clock was ahead.
#[tokio::test(start_paused = true)]
async fn a_clock_that_a_majority_agrees_with_mints_nothing_before_the_mark_of_the_last_start() {
    let mark = StoredMark::stopped(WallMs(NOON + 10_000));
    let (story, _said) = among_with(agreement(0, Some(0)), Some(mark));
    story.pass(500).await;
    let has_window = story.minters.default().window().is_some();
    assert!(has_window, "the lease is there");
    story.watch.judge(story.watch.wall());
    let refused = story.code().await;
    let expected = Some(ErrorCode::ClockBehind);
    assert_eq!(
        refused, expected,
        "minted before the mark of the last start"
    );
    story.pass(9_600).await;
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_no_majority_agrees_nothing_is_minted_and_where_too_few_are_known_the_window_is() {
    let (story, said) = among(agreement(0, Some(0)));
    story.mint(1).await.unwrap();
    story.hears(&said, agreement(0, Some(60_000)));
    // Two of three clocks still agree, so the third is wrong.
    story.mint(1).await.unwrap();
    story.hears(&said, Agreement::Split);
    assert_eq!(story.code().await, Some(ErrorCode::ClockSkewed));
    story.hears(&said, Agreement::Unknown);
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_taken_before_the_clock_is_known() {
    let (story, said) = among(agreement(0, None));
    let refused = story.code().await;
    assert_eq!(refused, Some(ErrorCode::NoWorkerYet), "a lease was taken");
    let words = story.mint(1).await.unwrap_err().to_string();
    assert!(words.contains("has not compared its clock"), "{words}");
    story.hears(&said, agreement(0, Some(0)));
    story.pass(300).await;
    story.mint(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_the_reason_for_no_lease_is_the_missing_quorum() {
    let (story, _said) = among(agreement(0, None));
    story.replica.set_quorum(false);
    let error = story.mint(1).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoWorkerYet);
    let words = error.to_string();
    assert!(
        words.contains("cannot lease a worker: 1 of 3 voters"),
        "{words}"
    );
    story.replica.set_quorum(true);
    story.pass(300).await;
    let words = story.mint(1).await.unwrap_err().to_string();
    assert!(words.contains("has not compared its clock"), "{words}");
}

/// After a crash at that moment, a start with a corrected clock would otherwise wait for the mark.
#[tokio::test(start_paused = true)]
async fn the_mark_of_a_clock_that_is_wrong_lies_in_the_right_time() {
    let (story, said) = among(agreement(0, Some(0)));
    story.mint(1).await.unwrap();
    story.clock.step(3_600_000);
    for peers in [agreement(3_600_000, Some(0)), Agreement::Split] {
        story.hears(&said, peers);
        let mark = story.minters.mark();
        assert!(mark.ahead.0 <= NOON + 1_000, "{mark:?}");
    }
}
