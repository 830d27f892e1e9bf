//! The text of a takeover and its arguments.

use super::*;

fn takeover(ancestors: &[&str]) -> Takeover {
    Takeover {
        source: PathBuf::from("backup.snap"),
        from_cluster: "01J8".to_owned(),
        former_members: vec!["n1".to_owned()],
        cluster_id: "01J9".to_owned(),
        member: Member {
            name: "n9".to_owned(),
            peer: "n9:7401".to_owned(),
            http: "http://n9:7400".to_owned(),
        },
        ancestors: ancestors.iter().map(ToString::to_string).collect(),
        index: 90,
        term: 2,
        wall_ms: 1,
        age_ms: 0,
        unproven_entries: 0,
        wall_ms_is_given: false,
        notes: Vec::new(),
        window_ms: 30_000,
        max_peer_skew_ms: 500,
        ids_after_ms: 30_000,
        sequences: Vec::new(),
        freed_holds: 0,
    }
}

#[test]
fn a_rehearsal_is_deleted_and_touches_no_other_machine() {
    let steps = |ancestors: &[&str]| next_steps(&takeover(ancestors), Path::new("/var/lib/drill"));
    let drill = "next: start seqd server as n9 on /var/lib/drill; use none of its numbers \
        outside the rehearsal, and delete /var/lib/drill afterwards";
    assert_eq!(steps(&[]), drill);
    let real = steps(&["01J8"]);
    assert!(
        real.contains("on each other machine empty the folder"),
        "{real}"
    );
}

#[test]
fn the_condition_for_ids_names_the_state_and_no_backup() {
    let ids = promises(&takeover(&["01J8"]));
    let ids = &ids.iter().find(|(key, _)| *key == "IDs").unwrap().1;
    assert!(ids.contains("after this state was written"), "{ids}");
    assert!(!ids.contains("backup"), "{ids}");
}

#[test]
fn a_floor_is_a_name_and_a_value() {
    assert_eq!(floor("order=-5"), Ok(("order".to_owned(), -5)));
    assert!(floor("order").is_err());
    assert!(floor("order=x").is_err());
}

#[test]
fn an_address_has_a_host_and_a_port() {
    assert_eq!(
        check(Some("n1"), Some("[::1]:7401"), None).unwrap(),
        "[::1]"
    );
    for peer in ["n1", ":7401", "n1:port", "banana split:1"] {
        assert_eq!(check(None, Some(peer), None).unwrap_err().exit, 2, "{peer}");
    }
    for http in ["banana split", "n1:7400", "http://n1:7400/v1"] {
        assert_eq!(check(None, None, Some(http)).unwrap_err().exit, 2, "{http}");
    }
}
