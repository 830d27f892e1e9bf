//! Majorities of the voters in force, and the confirmations of one round.

use std::collections::BTreeSet;

use seqd_guards::is_out;

/// The voters of each configuration in force; two while a change of voters is between its steps.
pub(crate) type Configs = Vec<BTreeSet<u64>>;

/// Returns whether the counted voters make a majority of each configuration.
pub(crate) fn has_majorities(configs: &[BTreeSet<u64>], is_counted: impl Fn(u64) -> bool) -> bool {
    configs.iter().all(|config| {
        let counted = config.iter().filter(|id| is_counted(**id)).count();
        config.is_empty() || counted > config.len() / 2
    })
}

/// The number of voters and of counted voters in the configuration that can lose the fewest; the
/// latest of them if several can lose equally many. The quorum is kept as long as this
/// configuration keeps its majority.
pub(crate) fn weakest(configs: &[BTreeSet<u64>], is_counted: impl Fn(u64) -> bool) -> Counted {
    let counted = configs.iter().map(|config| Counted {
        voters: config.len(),
        counted: config.iter().filter(|id| is_counted(**id)).count(),
    });
    counted
        .rev()
        .min_by_key(|it| it.spare())
        .unwrap_or_default()
}

/// The voters of one configuration, and those of them that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) voters: usize,
    pub(crate) counted: usize,
}

impl Counted {
    /// The number of counted voters above a majority; negative without one.
    fn spare(self) -> isize {
        let majority = self.voters / 2 + 1;
        self.counted.cast_signed() - majority.cast_signed()
    }
}

/// The voters that have confirmed the leadership of a term in one round.
///
/// A voter confirms a term with its promise that it has not voted in a later term.
pub(crate) struct Confirmations {
    term: u64,
    configs: Configs,
    confirmed: BTreeSet<u64>,
}

impl Confirmations {
    pub(crate) fn new(term: u64, configs: Configs) -> Self {
        Self {
            term,
            configs,
            confirmed: BTreeSet::new(),
        }
    }

    /// Counts a promise, which the node gave after the requests of the round had arrived.
    pub(crate) fn count(&mut self, node: u64, promised: u64) {
        if promised <= self.term {
            self.confirmed.insert(node);
        }
    }

    /// Returns whether these nodes confirm the leadership in every configuration in force.
    pub(crate) fn is_complete(&self) -> bool {
        if is_out!(MajorityConfirms) {
            return true;
        }
        self.is_complete_with(&[])
    }

    fn is_complete_with(&self, more: &[u64]) -> bool {
        let is_counted = |id| self.confirmed.contains(&id) || more.contains(&id);
        !self.configs.is_empty() && has_majorities(&self.configs, is_counted)
    }

    /// The other voters, in two lists: the fewest that can complete the confirmations, and those to
    /// ask if one of the first list does not answer. The preferred voter comes first.
    pub(crate) fn to_ask(&self, preferred: u64) -> (Vec<u64>, Vec<u64>) {
        let voters: BTreeSet<u64> = self.configs.iter().flatten().copied().collect();
        let open = voters.into_iter().filter(|id| !self.confirmed.contains(id));
        let mut first: Vec<u64> = open.collect();
        first.sort_by_key(|id| *id != preferred);
        let fewest = (0..=first.len()).find(|count| self.is_complete_with(&first[..*count]));
        let rest = first.split_off(fewest.unwrap_or(first.len()));
        (first, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    fn configs(configs: &[&[u64]]) -> Configs {
        let configs = configs.iter();
        configs.map(|ids| ids.iter().copied().collect()).collect()
    }

    fn confirmed_by(voters: &[&[u64]], nodes: &[u64]) -> bool {
        let mut confirmations = Confirmations::new(5, configs(voters));
        for node in nodes {
            confirmations.count(*node, 5);
        }
        confirmations.is_complete()
    }

    #[test]
    fn each_half_of_a_joint_membership_needs_a_majority() {
        let majority = |voters: &[&[u64]], nodes: &[u64]| {
            has_majorities(&configs(voters), |voter| nodes.contains(&voter))
        };
        assert!(majority(&[&[1, 2, 3]], &[1, 3]));
        assert!(!majority(&[&[1, 2, 3, 4]], &[1, 3]));
        let joint: &[&[u64]] = &[&[1, 2, 3], &[3, 4, 5, 6, 7]];
        assert!(!majority(joint, &[3, 4, 5, 6, 7]), "one of three");
        assert!(majority(joint, &[2, 3, 4, 5]));
        assert!(
            majority(&[], &[]) && majority(&[&[]], &[]),
            "nothing is known yet"
        );
        assert!(!confirmed_by(joint, &[3, 4, 5, 6, 7]));
        assert!(confirmed_by(joint, &[2, 3, 4, 5]));
        assert!(!confirmed_by(&[], &[1]), "no voters are known");
    }

    #[test]
    fn the_half_of_a_joint_membership_that_can_lose_the_fewest_counts() {
        let count = |voters: &[&[u64]], nodes: &[u64]| {
            let it = weakest(&configs(voters), |voter| nodes.contains(&voter));
            (it.counted, it.voters)
        };
        assert_eq!(count(&[&[1, 2, 3]], &[1, 2]), (2, 3));
        assert_eq!(count(&[], &[1]), (0, 0));
        let joint: &[&[u64]] = &[&[1, 2, 3], &[1, 2, 3, 4]];
        assert_eq!(count(joint, &[1, 2, 3, 4]), (4, 4), "each can lose one");
        assert_eq!(count(joint, &[1, 2, 3]), (3, 4));
        assert_eq!(count(joint, &[1, 3, 4]), (3, 4));
        assert_eq!(count(joint, &[1, 4]), (2, 4), "both lack a voter");
        assert_eq!(count(joint, &[1, 2]), (2, 4), "the new voters have none");
        let replaced: &[&[u64]] = &[&[1, 2, 3], &[3, 4, 5]];
        assert_eq!(count(replaced, &[1, 2, 3]), (1, 3), "one of the new voters");
        assert_eq!(count(replaced, &[3, 4, 5]), (1, 3));
    }

    #[test]
    fn only_voters_that_promised_no_later_term_are_counted_and_each_once() {
        assert!(!confirmed_by(&[&[1, 2, 3]], &[1, 1, 4]), "4 is a learner");
        assert!(confirmed_by(&[&[1, 2, 3]], &[1, 2]));
        let mut confirmations = Confirmations::new(5, configs(&[&[1, 2, 3]]));
        confirmations.count(1, 5);
        confirmations.count(2, 6);
        assert!(!confirmations.is_complete(), "2 has voted for term 6");
        confirmations.count(3, 4);
        assert!(
            confirmations.is_complete(),
            "3 has voted for no later term, so no leader of one has its vote"
        );
    }

    #[test]
    fn the_fewest_voters_are_asked_first_and_the_preferred_one_before_others() {
        let mut confirmations = Confirmations::new(1, configs(&[&[1, 2, 3, 4, 5]]));
        confirmations.count(1, 1);
        assert_eq!(confirmations.to_ask(4), (vec![4, 2], vec![3, 5]));
        confirmations.count(4, 1);
        assert_eq!(confirmations.to_ask(4), (vec![2], vec![3, 5]));
        confirmations.count(2, 1);
        assert_eq!(confirmations.to_ask(4), (vec![], vec![3, 5]));
    }

    proptest! {
        #[test]
        fn two_complete_sets_share_a_voter_and_those_asked_complete_them(
            config in btree_set(0_u64..7, 1..7),
            one in vec(0_u64..7, 0..7),
            other in vec(0_u64..7, 0..7),
            preferred in 0_u64..7,
        ) {
            let complete = |nodes: &[u64]| {
                let mut confirmations = Confirmations::new(1, vec![config.clone()]);
                nodes.iter().for_each(|node| confirmations.count(*node, 1));
                confirmations
            };
            if complete(&one).is_complete() && complete(&other).is_complete() {
                prop_assert!(config.iter().any(|id| one.contains(id) && other.contains(id)));
            }
            let (first, rest) = complete(&one).to_ask(preferred);
            let asked = [one.clone(), first.clone()].concat();
            prop_assert!(complete(&asked).is_complete());
            let fewer = &asked[..asked.len() - usize::from(!first.is_empty())];
            prop_assert!(first.is_empty() || !complete(fewer).is_complete());
            prop_assert!(rest.iter().all(|id| !first.contains(id)));
        }
    }
}
