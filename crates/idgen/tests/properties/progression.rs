//! Progressions compared with a naive `nextval` that steps one value at a time.

use proptest::prelude::*;
use seqd_idgen::{Progression, ProgressionError};

use crate::cases;

/// Returns the first values, each with whether it begins a pass. Ends where the sequence ends.
fn naive(p: &Progression, most: usize) -> Vec<(i64, bool)> {
    let mut values = vec![(p.start(), true)];
    while values.len() < most {
        let next = i128::from(values.last().unwrap().0) + i128::from(p.increment());
        if (i128::from(p.min())..=i128::from(p.max())).contains(&next) {
            values.push((next as i64, false));
        } else if p.cycle() {
            values.push((if p.increment() > 0 { p.min() } else { p.max() }, true));
        } else {
            break;
        }
    }
    values
}

/// Narrow bounds anywhere in the range of i64, including its ends, and steps of all sizes.
fn any_progression() -> impl Strategy<Value = Progression> {
    let min = prop_oneof![
        Just(i64::MIN),
        Just(i64::MAX - 40),
        -50i64..50,
        any::<i64>().prop_map(|min| min.min(i64::MAX - 40)),
    ];
    let increment = prop_oneof![-7i64..=7, any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
    (min, 1i64..40, 0i64..40, increment, any::<bool>())
        .prop_filter("not 0", |(.., increment, _)| *increment != 0)
        .prop_map(|(min, width, start, increment, cycle)| {
            let max = min + width;
            Progression::new(min + start % (width + 1), increment, min, max, cycle).unwrap()
        })
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn every_index_has_the_value_that_stepping_gives(p in any_progression()) {
        let values = naive(&p, 200);
        for (index, (value, _)) in values.iter().enumerate() {
            prop_assert_eq!(p.value_at(index as u64), Some(*value), "index {}", index);
        }
        if p.cycle() {
            prop_assert_eq!(p.total(), None);
            prop_assert_eq!(p.remaining(3), None);
        } else {
            let total = values.len() as u64;
            prop_assert_eq!(p.total(), Some(total));
            prop_assert_eq!(p.value_at(total), None);
            prop_assert_eq!(p.remaining(1), Some(total - 1));
            prop_assert_eq!(p.remaining(total + 5), Some(0));
        }
    }

    #[test]
    fn a_pass_ends_where_the_next_begins(p in any_progression(), index in 0usize..150) {
        let values = naive(&p, 200);
        let index = index % values.len();
        let end = (index + 1..values.len()).find(|i| values[*i].1).unwrap_or(values.len());
        prop_assert!(end < 200 || !p.cycle(), "a pass has 41 values at most");
        prop_assert_eq!(p.pass_end(index as u64), end as u64);
        let begin = (0..=index).rev().find(|i| *i == 0 || values[*i].1).unwrap_or(0);
        prop_assert!((end - begin) as u64 <= p.longest_pass());
        let later = if p.cycle() { p.pass_end(p.pass_end(0)) - p.pass_end(0) } else { 0 };
        prop_assert_eq!(p.longest_pass(), p.pass_end(0).max(later));
    }

    #[test]
    fn the_first_index_at_or_beyond_is_found(
        p in any_progression(),
        offset in -5i64..60,
        from in 0u64..60,
    ) {
        let value = p.min().saturating_add(offset);
        let pass = p.pass_end(0);
        let reached = |v: i64| if p.increment() > 0 { v >= value } else { v <= value };
        let found = (from..pass).find(|i| reached(p.value_at(*i).unwrap()));
        prop_assert_eq!(p.first_index_at_or_beyond(value, from), found);
        let index = p.index_of_any(value);
        // At the end of the 64-bit numbers, no extension has the value.
        prop_assert!(p.value_if_extended(index).is_none_or(reached));
        prop_assert!(index == 0 || !reached(p.value_if_extended(index - 1).unwrap()));
        prop_assert!(index >= pass || p.value_at(index) == p.value_if_extended(index));
    }

    #[test]
    fn far_indexes_agree_with_the_period(p in any_progression(), index in 0..u64::MAX) {
        let p = Progression::new(p.start(), p.increment(), p.min(), p.max(), true).unwrap();
        let end = p.pass_end(index);
        prop_assert!(end > index);
        let (value, next) = (p.value_at(index).unwrap(), p.value_at(index + 1));
        prop_assert!((p.min()..=p.max()).contains(&value));
        if index + 1 < end {
            prop_assert_eq!(next, Some(value + p.increment()));
        } else if end < u64::MAX {
            prop_assert_eq!(next, Some(if p.increment() > 0 { p.min() } else { p.max() }));
        }
    }
}

#[test]
fn defaults_are_postgresqls() {
    let p = Progression::with_defaults(None, None, None, None, false).unwrap();
    assert_eq!(
        (p.start(), p.increment(), p.min(), p.max()),
        (1, 1, 1, i64::MAX)
    );
    let p = Progression::with_defaults(None, Some(-2), None, None, false).unwrap();
    assert_eq!(
        (p.start(), p.increment(), p.min(), p.max()),
        (-1, -2, i64::MIN, -1)
    );
    let p = Progression::with_defaults(None, Some(5), Some(10), Some(30), true).unwrap();
    assert_eq!((p.start(), p.cycle()), (10, true));
    // As in PostgreSQL: a start below the default minimum is an error and does not lower the
    // minimum.
    assert_eq!(
        Progression::with_defaults(Some(0), None, None, None, false),
        Err(ProgressionError::StartOutside {
            start: 0,
            min: 1,
            max: i64::MAX
        })
    );
}

#[test]
fn definitions_that_postgresql_refuses_are_refused() {
    assert_eq!(
        Progression::new(1, 0, 1, 9, false),
        Err(ProgressionError::ZeroIncrement)
    );
    assert_eq!(
        Progression::new(5, 1, 5, 5, false),
        Err(ProgressionError::EmptyBounds { min: 5, max: 5 })
    );
    assert_eq!(
        Progression::new(10, 1, 1, 9, false),
        Err(ProgressionError::StartOutside {
            start: 10,
            min: 1,
            max: 9
        })
    );
}

#[test]
fn the_widest_sequence_leaves_out_the_one_value_whose_mark_would_not_fit() {
    let p = Progression::new(i64::MIN, 1, i64::MIN, i64::MAX, false).unwrap();
    assert_eq!(p.total(), Some(u64::MAX));
    assert_eq!(p.pass_end(0), u64::MAX);
    assert_eq!(p.value_at(u64::MAX - 1), Some(i64::MAX - 1));
    assert_eq!(p.value_at(u64::MAX), None);
    assert_eq!(
        p.first_index_at_or_beyond(i64::MAX - 1, 0),
        Some(u64::MAX - 1)
    );
    assert_eq!(p.first_index_at_or_beyond(i64::MAX, 0), None);
    assert_eq!(p.index_of_any(i64::MAX), u64::MAX);
    assert_eq!(p.value_if_extended(u64::MAX), None);
    assert_eq!(p.value_if_extended(u64::MAX - 1), Some(i64::MAX - 1));
}

#[test]
fn later_passes_begin_at_the_minimum_and_not_at_the_start() {
    let p = Progression::new(5, 3, 1, 9, true).unwrap();
    let values: Vec<_> = (0..8).map(|i| p.value_at(i).unwrap()).collect();
    assert_eq!(values, [5, 8, 1, 4, 7, 1, 4, 7]);
    assert_eq!(
        (p.pass_end(0), p.pass_end(1), p.pass_end(2), p.pass_end(5)),
        (2, 2, 5, 8)
    );
    let down = Progression::new(5, -3, 1, 9, true).unwrap();
    let values: Vec<_> = (0..6).map(|i| down.value_at(i).unwrap()).collect();
    assert_eq!(values, [5, 2, 9, 6, 3, 9]);
}
