//! Checks in particular states of the cluster.

use super::*;

#[test]
fn a_node_without_members_waits_for_a_cluster_or_for_the_others_of_its_own() {
    for (cluster, standing, remedy) in [
        (
            None,
            "n1 is not a member of a cluster yet",
            "seqd member add",
        ),
        (
            Some("01J9"),
            "n1 does not serve its cluster 01J9 yet",
            "start the other members; only if a majority",
        ),
    ] {
        let mut facts = facts();
        facts.nodes.truncate(1);
        facts.nodes[0].not_ready = Some("seen 1/3".to_owned());
        facts.cluster.cluster_id = cluster.map(str::to_owned);
        facts.cluster.members.clear();
        facts.cluster.quorum = Quorum::of(0, 0);
        let members = group::members(&facts);
        assert_eq!(members.result, Outcome::Fail);
        assert_eq!(members.detail, format!("{standing}: seen 1/3"));
        assert!(members.what_to_do.contains(remedy), "{members:?}");
        let quorum = group::quorum(&facts);
        assert_eq!(quorum.result, Outcome::Skip);
        assert_eq!(quorum.detail, format!("not checked: {standing}"));
    }
}

#[test]
fn a_window_far_ahead_of_a_correct_clock_is_to_be_reset() {
    let mut facts = facts();
    facts.nodes[1].windows[0].left_ms = 3_600_000;
    let check = nodes::windows(&facts);
    assert_eq!(check.result, Outcome::Fail);
    assert!(
        check.what_to_do.ends_with("seqd worker reset n2"),
        "{check:?}"
    );
    // The check of the clocks names a wrong one.
    facts.cluster.members[1].clock_ahead_ms = Some(-3_600_000.0);
    assert_eq!(nodes::windows(&facts).result, Outcome::Ok);
}

#[test]
fn a_ready_learner_is_to_be_promoted() {
    let mut facts = facts();
    facts.cluster.members[2].role = seqd_client::api::Role::Learner;
    facts.cluster.quorum = Quorum::of(2, 2);
    let checks = judged(&facts);
    let quorum = checks.iter().find(|it| it.check == "quorum").unwrap();
    assert_eq!(
        quorum.what_to_do,
        "make the learner n3 a voter: seqd member promote n3 --wait"
    );
}

#[test]
fn a_draining_member_serves() {
    let mut facts = facts();
    facts.cluster.members[0].state = MemberState::Draining;
    let check = group::members(&facts);
    assert!(check.why.contains("serves requests"), "{}", check.why);
}
