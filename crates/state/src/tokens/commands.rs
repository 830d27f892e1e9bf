//! The commands that issue and consume one-time tokens, their outcomes and refusals, and how
//! `apply` executes them.

use seqd_guards::is_out;
use serde::{Deserialize, Serialize};

use super::record::{OneTimeId, OneTimeRecord, OneTimeUse};
use crate::access::TokenHash;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::context::ApplyContext;
use crate::deadlines::Deadlines;
use crate::keys::commands::{MAX_TTL_MS, MIN_TTL_MS};
use crate::keys::record::MAX_NONCE_BYTES;
use crate::newtypes::ClusterMs;
use crate::table::Table;
use crate::tenant::Tenant;

/// The maximum number of tokens that one command issues. Applying it takes a few milliseconds.
pub const MAX_ISSUED: usize = 1000;

/// The maximum number of one-time tokens, used and expired ones included. At about 160 bytes each,
/// including the index, they take 640 MB of a node's memory. A node's own limit (`limits.tokens`)
/// is far lower.
pub const MAX_ONE_TIME: usize = 4_000_000;

/// A change of the one-time tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OneTimeCommand {
    Issue {
        tokens: Vec<(OneTimeId, TokenHash)>,
        ttl_ms: u64,
        /// The tenant to which the tokens are charged.
        tenant: Tenant,
    },
    Consume {
        id: OneTimeId,
        hash: TokenHash,
        /// The same in every retry of a request; empty for no nonce.
        nonce: String,
    },
    /// Removes tokens, on behalf of an operator.
    Remove { ids: Vec<OneTimeId> },
}

/// The result of a [`OneTimeCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OneTimeOutcome {
    Issued {
        until: ClusterMs,
    },
    /// The caller consumed the token, with this request or an earlier attempt of it.
    First,
    /// Another request consumed it.
    Used,
    /// The token does not exist or has expired, or the secret is wrong.
    Unknown,
    /// The number of tokens that existed.
    Removed {
        count: u64,
    },
}

/// The reason why a [`OneTimeCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OneTimeRefusal {
    #[error("one-time token {id} already exists")]
    Exists { id: OneTimeId },
    #[error("there are {MAX_ONE_TIME} one-time tokens, which is the maximum of a cluster")]
    TooMany,
    #[error("1 to {MAX_ISSUED} one-time tokens can be issued or removed at once, not {count}")]
    InvalidCount { count: u64 },
    #[error("the ttl of a one-time token must be {MIN_TTL_MS} to {MAX_TTL_MS} ms, not {ttl_ms}")]
    InvalidTtl { ttl_ms: u64 },
    #[error("a nonce has at most {MAX_NONCE_BYTES} bytes")]
    InvalidNonce,
}

impl FrameTable for OneTimeCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0901), // Issue
        row(0x0902), // Consume
        row(0x0903), // Remove
    ];
}

impl FrameTable for OneTimeOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0941), // Issued
        row(0x0942), // First
        row(0x0943), // Used
        row(0x0944), // Unknown
        row(0x0945), // Removed
    ];
}

impl FrameTable for OneTimeRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0981), // Exists
        row(0x0982), // TooMany
        row(0x0983), // InvalidCount
        row(0x0984), // InvalidTtl
        row(0x0985), // InvalidNonce
    ];
}

impl OneTimeCommand {
    /// Refuses a command that is invalid in every state.
    pub(crate) fn check(&self) -> Result<(), OneTimeRefusal> {
        match self {
            Self::Issue { tokens, ttl_ms, .. } => {
                check_count(tokens.len())?;
                let ttl_ms = *ttl_ms;
                if !(MIN_TTL_MS..=MAX_TTL_MS).contains(&ttl_ms) {
                    return Err(OneTimeRefusal::InvalidTtl { ttl_ms });
                }
                Ok(())
            }
            Self::Consume { nonce, .. } if nonce.len() > MAX_NONCE_BYTES => {
                Err(OneTimeRefusal::InvalidNonce)
            }
            Self::Consume { .. } => Ok(()),
            Self::Remove { ids } => check_count(ids.len()),
        }
    }
}

fn check_count(count: usize) -> Result<(), OneTimeRefusal> {
    let is_fit = (1..=MAX_ISSUED).contains(&count);
    let count = count as u64;
    is_fit
        .then_some(())
        .ok_or(OneTimeRefusal::InvalidCount { count })
}

impl Table<OneTimeRecord> {
    pub(crate) fn apply(
        &mut self,
        deadlines: &mut Deadlines,
        context: &ApplyContext<'_>,
        command: &OneTimeCommand,
    ) -> Result<OneTimeOutcome, OneTimeRefusal> {
        command.check()?;
        let now = context.cluster_ms;
        match command {
            OneTimeCommand::Issue {
                tokens,
                ttl_ms,
                tenant,
            } => self.issue(deadlines, now, tokens, (*ttl_ms, *tenant)),
            OneTimeCommand::Consume { id, hash, nonce } => Ok(self.consume(now, *id, *hash, nonce)),
            OneTimeCommand::Remove { ids } => Ok(self.forget(deadlines, ids)),
        }
    }

    /// Issues all of the tokens or none.
    fn issue(
        &mut self,
        deadlines: &mut Deadlines,
        now: ClusterMs,
        tokens: &[(OneTimeId, TokenHash)],
        (ttl_ms, tenant): (u64, Tenant),
    ) -> Result<OneTimeOutcome, OneTimeRefusal> {
        let mut ids: Vec<OneTimeId> = tokens.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        let repeated = ids.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(*one),
            _ => None,
        });
        let existing = ids.iter().copied().find(|id| self.get(id).is_some());
        if let Some(id) = repeated.or(existing) {
            return Err(OneTimeRefusal::Exists { id });
        }
        if self.len().saturating_add(tokens.len()) > MAX_ONE_TIME {
            return Err(OneTimeRefusal::TooMany);
        }
        let until = now.after(ttl_ms);
        for (id, hash) in tokens {
            let record = OneTimeRecord {
                tenant,
                hash: *hash,
                until,
                used: None,
            };
            deadlines.insert::<OneTimeRecord>(until, id);
            self.put(*id, record);
        }
        Ok(OneTimeOutcome::Issued { until })
    }

    fn consume(
        &mut self,
        now: ClusterMs,
        id: OneTimeId,
        hash: TokenHash,
        nonce: &str,
    ) -> OneTimeOutcome {
        let Some(record) = self.live(id, now).filter(|record| record.hash == hash) else {
            return OneTimeOutcome::Unknown;
        };
        match &record.used {
            Some(used) if !nonce.is_empty() && used.nonce == nonce => OneTimeOutcome::First,
            Some(_) if !is_out!(OneTimeUsedOnce) => OneTimeOutcome::Used,
            _ => {
                let mut record = record.clone();
                record.used = Some(Box::new(OneTimeUse {
                    nonce: nonce.to_owned(),
                    at: now,
                }));
                self.put(id, record);
                OneTimeOutcome::First
            }
        }
    }

    fn forget(&mut self, deadlines: &mut Deadlines, ids: &[OneTimeId]) -> OneTimeOutcome {
        let mut count = 0;
        for id in ids {
            if let Some(record) = self.remove(id) {
                deadlines.remove::<OneTimeRecord>(record.until, id);
                count += 1;
            }
        }
        OneTimeOutcome::Removed { count }
    }

    /// Returns a token that has not expired, independently of the index of deadlines.
    pub(crate) fn live(&self, id: OneTimeId, now: ClusterMs) -> Option<&OneTimeRecord> {
        self.get(&id).filter(|record| !record.is_ended(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::{Command, Outcome};
    use crate::state::State;
    use crate::testing::{entry, founded, restore};

    fn issue(ids: &[u64]) -> Command {
        let token = |id: &u64| (OneTimeId(*id), TokenHash([7; 32]));
        let tokens = ids.iter().map(token).collect();
        let ttl_ms = 5_000;
        let tenant = Tenant::OPERATOR;
        OneTimeCommand::Issue {
            tokens,
            ttl_ms,
            tenant,
        }
        .into()
    }

    fn consume(state: &mut State, at: u64, id: u64, nonce: &str) -> Outcome {
        let consume = OneTimeCommand::Consume {
            id: OneTimeId(id),
            hash: TokenHash([7; 32]),
            nonce: nonce.to_owned(),
        };
        state
            .apply(&entry(at, vec![consume.into()]), None)
            .remove(0)
    }

    #[test]
    fn a_token_is_consumed_once() {
        let mut state = founded();
        state.apply(&entry(0, vec![issue(&[1, 2])]), None);
        let first = Outcome::OneTime(OneTimeOutcome::First);
        assert_eq!(consume(&mut state, 1, 1, "a"), first);
        assert_eq!(consume(&mut state, 2, 1, "a"), first, "the reply was lost");
        for nonce in ["b", ""] {
            let used = consume(&mut state, 3, 1, nonce);
            assert_ne!(used, first, "a token was consumed twice");
        }
        let used = state.one_time(OneTimeId(1)).unwrap().used.clone().unwrap();
        assert_eq!((used.nonce.as_str(), used.at), ("a", ClusterMs(1)));
        let unknown = Outcome::OneTime(OneTimeOutcome::Unknown);
        assert_eq!(consume(&mut state, 5_001, 2, ""), unknown, "it is over");
        assert_eq!(state.one_time_count(), 0, "and dropped");
    }

    #[test]
    fn a_restored_cluster_has_no_token_of_its_backup() {
        let mut state = founded();
        state.apply(&entry(0, vec![issue(&[1])]), None);
        restore(&mut state);
        assert_eq!((state.one_time_count(), state.next_deadline()), (0, None));
    }
}
