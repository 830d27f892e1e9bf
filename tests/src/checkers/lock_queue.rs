//! The queue of a lock: waiters are served once, in the order of their entries in the log.

use std::collections::BTreeMap;

use super::Violation;
use super::locks::Hold;

/// The counts of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    pub waited: usize,
    pub granted: usize,
}

/// Grants are in the order in which their claims began to wait, and no claim is granted twice. The
/// holds are those of one lock, in the order of the log. Holds that did not wait are ignored.
pub fn in_order(arrivals: &[u128], holds: &[Hold]) -> Result<Served, Violation> {
    let places: BTreeMap<u128, usize> = arrivals.iter().copied().zip(0..).collect();
    let mut last: Option<(usize, &Hold)> = None;
    let mut granted = 0;
    for hold in holds {
        let Some(place) = places.get(&hold.nonce) else {
            continue;
        };
        if let Some((before, earlier)) = last
            && *place <= before
        {
            let detail = format!("{hold:?} came as number {place}, {earlier:?} as number {before}");
            return Err(Violation::new("who came first is served first", detail));
        }
        last = Some((*place, hold));
        granted += 1;
    }
    Ok(Served {
        waited: arrivals.len(),
        granted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::locks::HoldEnd;

    fn hold(nonce: u128, token: u64) -> Hold {
        Hold {
            lock: 0,
            token,
            owner: "owner".to_owned(),
            nonce,
            permits: 1,
            shared: false,
            ttl_ms: 10,
            delay_ms: 0,
            from_ms: token,
            until_ms: token + 10,
            end_ms: token + 1,
            end: HoldEnd::Released,
            renewals: 0,
            was_shortened: false,
        }
    }

    #[test]
    fn a_request_that_is_served_out_of_turn_or_twice_is_found() {
        let arrivals = [5, 9, 7, 1];
        // The first did not wait, and 9 has left the queue.
        let sound = [hold(3, 1), hold(5, 2), hold(7, 3), hold(1, 4)];
        let served = Served {
            waited: 4,
            granted: 3,
        };
        assert_eq!(in_order(&arrivals, &sound), Ok(served));
        let overtaken = [hold(5, 1), hold(7, 2), hold(9, 3)];
        let twice = [hold(5, 1), hold(9, 2), hold(9, 3)];
        for planted in [overtaken, twice] {
            let violation = in_order(&arrivals, &planted).unwrap_err();
            assert_eq!(violation.invariant, "who came first is served first");
        }
    }
}
