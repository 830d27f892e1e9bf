//! Tests of the plan of an import.

use proptest::prelude::*;

use super::super::input::tables;
use super::*;

const PLAIN: Rules<'static> = Rules {
    prefix: "",
    margin: 0,
};

fn read(text: &str, system: System, rules: Rules<'_>) -> Result<Vec<Target>, Vec<Refusal>> {
    let tables = tables(text.as_bytes(), &system.schema()).map_err(|refusal| vec![refusal])?;
    targets(&tables, system, rules)
}

/// The only refusal of a file.
fn refused(text: &str, system: System) -> Refusal {
    let mut refusals = read(text, system, PLAIN).unwrap_err();
    assert_eq!(refusals.len(), 1, "{text}");
    refusals.remove(0)
}

fn only(text: &str, system: System, margin: u64) -> (i64, i64) {
    let rules = Rules { margin, ..PLAIN };
    let found = read(text, system, rules).unwrap();
    assert_eq!(found.len(), 1);
    (found[0].start, found[0].increment)
}

#[test]
fn each_system_begins_at_its_first_unused_value() {
    let leaf = "biz_tag,max_id\na,1001\n";
    assert_eq!(only(leaf, System::Leaf, 0), (1001, 1));
    assert_eq!(only(leaf, System::Leaf, 500), (1501, 1));
    let tiny = "biz_type,max_id,delta,remainder\na,100,3,2\n";
    assert_eq!(only(tiny, System::TinyId, 0), (101, 3));
    assert_eq!(only(tiny, System::TinyId, 1), (104, 3));
    assert_eq!(only("name,value\na,7\n", System::Counters, 10), (18, 1));
    let steps = "name,value,increment\na,7,5\n";
    assert_eq!(only(steps, System::Counters, 2), (22, 5));
}

#[test]
fn a_bad_row_is_refused_with_its_line() {
    let cases = [
        (System::Leaf, "biz_tag,max_id\na,x\n", 2, "whole number"),
        (System::Leaf, "biz_tag,max_id\na,-1\n", 2, "whole number"),
        (System::Leaf, "biz_tag,max_id\n,1\n", 2, "1 to 128"),
        (System::Leaf, "biz_tag,max_id\na b,1\n", 2, "1 to 128"),
        (System::Leaf, "biz_tag,max_id\na,1\na,2\n", 3, "line 2"),
        (System::Leaf, "biz_tag\tmax_id\nNULL\t1\n", 2, "NULL"),
        (
            System::TinyId,
            "biz_type,max_id,delta,remainder\na,9,2,0\na,9,2,1\n",
            3,
            "line 2",
        ),
        (
            System::TinyId,
            "biz_type,max_id,delta,remainder\na,9,2,2\n",
            2,
            "below delta",
        ),
        (
            System::Counters,
            "name,value\na,9223372036854775807\n",
            2,
            "above",
        ),
        (System::Counters, "name,value,increment\na,1,0\n", 2, "1 to"),
    ];
    for (system, text, line, part) in cases {
        let refusal = refused(text, system);
        assert_eq!(refusal.line, line, "{text}");
        assert!(refusal.reason.contains(part), "{text}: {}", refusal.reason);
    }
}

#[test]
fn all_bad_rows_of_a_file_are_refused_together() {
    let text = "name,value\na,x\nb,1\nc d,1\nb,2\ne,1\n";
    let refusals = read(text, System::Counters, PLAIN).unwrap_err();
    let lines: Vec<u64> = refusals.iter().map(|refusal| refusal.line).collect();
    assert_eq!(lines, [2, 4, 5]);
}

#[test]
fn identical_rows_are_one_sequence_and_a_prefix_is_put_before_it() {
    let rules = Rules {
        prefix: "shop.",
        margin: 0,
    };
    let found = read("name,value\n_a,1\n_a,1\n", System::Counters, rules).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, "shop._a");
}

fn sequence(start: i64, increment: i64, next: i64) -> Sequence {
    let json = serde_json::json!({
        "name": "a", "mode": "segment", "start": start.to_string(),
        "increment": increment.to_string(), "min": "1", "max": "10000", "cycle": false,
        "next": next.to_string(),
    });
    serde_json::from_value(json).unwrap()
}

fn against(start: i64, increment: i64, found: &Sequence) -> Step {
    let target = Target {
        line: 2,
        name: "a".to_owned(),
        start,
        increment,
    };
    step(&target, Some(found), None)
}

#[test]
fn an_existing_sequence_moves_forward_only() {
    assert_eq!(against(50, 1, &sequence(1, 1, 50)), Step::Discard(50));
    assert_eq!(against(50, 1, &sequence(1, 1, 49)), Step::Advance);
    assert_eq!(against(50, 1, &sequence(50, 1, 1050)), Step::Equal);
    for (start, increment, found) in [
        (50, 2, sequence(1, 1, 5)),
        (50, 2, sequence(1, 2, 5)),
        (10_001, 1, sequence(1, 1, 5)),
    ] {
        let step = against(start, increment, &found);
        assert!(matches!(step, Step::Refuse(_)), "{step:?}");
    }
}

#[test]
fn ranges_that_nodes_may_hold_below_the_start_become_void() {
    assert_eq!(against(50, 1, &sequence(1, 1, 1001)), Step::Discard(1001));
}

#[test]
fn ordered_values_below_the_start_in_the_leaders_memory_become_void() {
    let mut found = sequence(1, 1, 1025);
    found.mode = Mode::Ordered;
    assert_eq!(against(50, 1, &found), Step::Discard(1025));
    found.mode = Mode::Strict;
    assert_eq!(against(50, 1, &found), Step::Equal);
}

#[test]
fn a_row_of_empty_cells_is_refused() {
    let refusal = refused("name\tvalue\n\t\nb\t1\n", System::Counters);
    assert_eq!(refusal.line, 2);
}

proptest! {
    #[test]
    fn the_first_value_above_is_the_smallest_with_its_remainder(
        last in 0_i64..1_000_000, delta in 1_i64..1000, part in 0.0..1.0_f64,
    ) {
        let remainder = (part * delta as f64) as i64;
        let first = first_above(i128::from(last), delta, remainder);
        prop_assert!(first > i128::from(last) && first <= i128::from(last) + i128::from(delta));
        prop_assert_eq!(first % i128::from(delta), i128::from(remainder));
    }
}
