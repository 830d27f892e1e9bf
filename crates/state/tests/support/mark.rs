//! The rule of marks and tokens, which a test tracks next to the state.

use seqd_state::{Command, GrantToken, Outcome, SequenceCommand, SequenceOutcome};

/// The rule of marks and tokens, derived from outcomes alone.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    next_index: u64,
    /// The latest token and the first index of its run, while indices can be returned.
    run: Option<(GrantToken, u64)>,
}

impl Mark {
    pub(crate) fn follow(&mut self, command: &Command, outcome: &Outcome) {
        match (command, outcome) {
            (
                Command::Sequences(SequenceCommand::GrantSegment { after, .. }),
                Outcome::Sequences(SequenceOutcome::SegmentGranted(grant)),
            ) => {
                assert_eq!(
                    grant.first_index, self.next_index,
                    "the mark fell or left a gap: grants touch and do not overlap"
                );
                let extended = self.run.filter(|(token, _)| *after == Some(*token));
                let start = extended.map_or(grant.first_index, |(_, start)| start);
                assert_eq!(
                    grant.run_start, start,
                    "a run has a tail that nobody could give"
                );
                self.run = Some((grant.token, start));
                self.next_index = grant.first_index + grant.count;
            }
            (
                Command::Sequences(SequenceCommand::ReturnTail {
                    token,
                    first_unused,
                    ..
                }),
                outcome,
            ) => {
                let valid = self.run.is_some_and(|(latest, start)| {
                    latest == *token && (start..=self.next_index).contains(first_unused)
                });
                let taken = matches!(
                    outcome,
                    Outcome::Sequences(SequenceOutcome::TailReturned { .. })
                );
                assert!(
                    valid || !taken,
                    "a tail was taken back that nobody could give"
                );
                if taken {
                    *self = Self {
                        next_index: *first_unused,
                        run: None,
                    };
                }
            }
            (_, Outcome::Sequences(SequenceOutcome::Advanced { next_index, .. })) => {
                assert!(
                    *next_index >= self.next_index,
                    "the mark fell: advance moves forward only"
                );
                *self = Self {
                    next_index: *next_index,
                    run: None,
                };
            }
            (_, Outcome::Sequences(SequenceOutcome::Deleted { .. })) => self.run = None,
            _ => {}
        }
    }
}
