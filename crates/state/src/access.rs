//! Who may use the cluster: a table of tokens with what each permits.
//!
//! Invariants:
//! - A token itself is never here: only the hash of its secret.
//! - A token that was revoked is never valid again: a restored cluster has none.
//!
//! When a token expires is for the reader to judge, by its own wall clock, as with a certificate:
//! an expired one stays in the table until it is revoked, so that a list shows it.

use std::fmt;

use seqd_idgen::WallMs;
use serde::{Deserialize, Serialize};

use crate::codec::Versioned;
use crate::codec::frame::{FrameRow, FrameTable, row};
use crate::domains::Refusal;
use crate::newtypes::AccessId;
use crate::table::{Record, Table};
use crate::text::{self, TextField};

/// The most tokens: each is held in memory, and at their largest all of them take 6 MiB of a
/// snapshot.
pub const MAX_TOKENS: usize = 1000;

/// The most permissions of one token: more than a service has prefixes.
pub const MAX_PERMISSIONS: usize = 16;

/// The most bytes of a prefix: no name is longer.
pub const MAX_PREFIX_BYTES: usize = 255;

/// The most requests a second that a limit can allow.
pub const MAX_PER_SECOND: u32 = 1_000_000;

/// SHA-256 of a token's secret.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenHash(pub [u8; 32]);

impl fmt::Debug for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenHash(..)")
    }
}

/// What may be done. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    Read,
    Allocate,
    Admin,
}

/// A scope, for the names that begin with a prefix. An empty one is that of all names, and of the
/// cluster itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Permission {
    pub scope: Scope,
    pub prefix: String,
}

impl Permission {
    /// Whether it covers the whole cluster.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.prefix.is_empty()
    }
}

/// A token. Its ID is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    pub hash: TokenHash,
    pub permissions: Vec<Permission>,
    /// For people.
    pub description: String,
    /// Wall clock of the entry that created it.
    #[serde(with = "crate::foreign::wall_ms")]
    pub created: WallMs,
    /// From then on it is refused, in Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Requests that each node serves in a second.
    pub per_second: Option<u32>,
}

impl AccessRecord {
    #[must_use]
    pub fn is_expired(&self, now: WallMs) -> bool {
        self.expires_ms.is_some_and(|expires| now.0 >= expires)
    }
}

impl Versioned for AccessRecord {
    const KIND: u8 = 20;
    const VERSION: u8 = 1;
}

impl Record for AccessRecord {
    type Key = AccessId;
    const PREFIX: u8 = b'x';

    fn write_key(key: &AccessId, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&key.0.to_be_bytes());
    }

    fn read_key(bytes: &[u8]) -> Option<AccessId> {
        Some(AccessId(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A change of the tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCommand {
    Create {
        id: AccessId,
        hash: TokenHash,
        permissions: Vec<Permission>,
        description: String,
        expires_ms: Option<u64>,
        per_second: Option<u32>,
    },
    Revoke {
        id: AccessId,
    },
}

/// What became of an [`AccessCommand`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessOutcome {
    Created { id: AccessId },
    Revoked { id: AccessId },
}

/// Why an [`AccessCommand`] changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AccessRefusal {
    #[error("there is no token {id}")]
    NotFound { id: AccessId },
    #[error("there is a token {id} already")]
    Exists { id: AccessId },
    #[error("there are {MAX_TOKENS} tokens, the most that a cluster keeps: revoke some")]
    TooMany,
    #[error(
        "a token has 1 to {MAX_PERMISSIONS} permissions, each with a prefix of at most \
         {MAX_PREFIX_BYTES} printable ASCII characters"
    )]
    InvalidPermissions,
    #[error("a token serves 1 to {MAX_PER_SECOND} requests a second")]
    InvalidRate,
}

impl FrameTable for AccessCommand {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0501), // Create
        row(0x0502), // Revoke
    ];
}

impl FrameTable for AccessOutcome {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0541), // Created
        row(0x0542), // Revoked
    ];
}

impl FrameTable for AccessRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0581), // NotFound
        row(0x0582), // Exists
        row(0x0583), // TooMany
        row(0x0584), // InvalidPermissions
        row(0x0585), // InvalidRate
    ];
}

impl AccessCommand {
    /// Refuses what no state takes.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Self::Create {
            permissions,
            description,
            per_second,
            ..
        } = self
        else {
            return Ok(());
        };
        text::check(TextField::Description, description)?;
        let is_fit = |permission: &Permission| {
            permission.prefix.len() <= MAX_PREFIX_BYTES
                && permission
                    .prefix
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic())
        };
        let count = permissions.len();
        if !(1..=MAX_PERMISSIONS).contains(&count) || !permissions.iter().all(is_fit) {
            return Err(AccessRefusal::InvalidPermissions.into());
        }
        if per_second.is_some_and(|rate| !(1..=MAX_PER_SECOND).contains(&rate)) {
            return Err(AccessRefusal::InvalidRate.into());
        }
        Ok(())
    }
}

impl Table<AccessRecord> {
    pub(crate) fn apply(
        &mut self,
        wall_ms: WallMs,
        command: &AccessCommand,
    ) -> Result<AccessOutcome, Refusal> {
        command.check()?;
        match command {
            AccessCommand::Create {
                id,
                hash,
                permissions,
                description,
                expires_ms,
                per_second,
            } => {
                let id = *id;
                if self.get(&id).is_some() {
                    return Err(AccessRefusal::Exists { id }.into());
                }
                if self.iter().count() >= MAX_TOKENS {
                    return Err(AccessRefusal::TooMany.into());
                }
                let record = AccessRecord {
                    hash: *hash,
                    permissions: permissions.clone(),
                    description: description.clone(),
                    created: wall_ms,
                    expires_ms: *expires_ms,
                    per_second: *per_second,
                };
                self.put(id, record);
                Ok(AccessOutcome::Created { id })
            }
            AccessCommand::Revoke { id } => match self.remove(id) {
                Some(_) => Ok(AccessOutcome::Revoked { id: *id }),
                None => Err(AccessRefusal::NotFound { id: *id }.into()),
            },
        }
    }

    /// A restored cluster takes none of the backup's tokens: one of them may have been revoked
    /// since.
    pub(crate) fn forget_all(&mut self) {
        let all: Vec<AccessId> = self.iter().map(|(id, _)| *id).collect();
        for id in all {
            self.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::{Command, Outcome};
    use crate::state::State;
    use crate::testing::{entry, founded, restore};

    fn create(id: u64, permissions: Vec<Permission>, per_second: Option<u32>) -> Command {
        AccessCommand::Create {
            id: AccessId(id),
            hash: TokenHash([id as u8; 32]),
            permissions,
            description: "billing".to_owned(),
            expires_ms: Some(9),
            per_second,
        }
        .into()
    }

    fn read(prefix: &str) -> Vec<Permission> {
        let (scope, prefix) = (Scope::Read, prefix.to_owned());
        vec![Permission { scope, prefix }]
    }

    fn apply(state: &mut State, command: Command) -> Outcome {
        state.apply(&entry(1, vec![command]), None).remove(0)
    }

    fn refused(state: &mut State, command: Command) -> Option<Refusal> {
        match apply(state, command) {
            Outcome::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    #[test]
    fn a_token_is_there_until_it_is_revoked() {
        let mut state = founded();
        let id = AccessId(7);
        assert_eq!(
            apply(&mut state, create(7, read("order."), Some(10))),
            AccessOutcome::Created { id }.into()
        );
        let record = state.access(id).unwrap();
        assert_eq!(record.permissions, read("order."));
        assert!(!record.is_expired(WallMs(8)) && record.is_expired(WallMs(9)));
        assert_eq!(
            refused(&mut state, create(7, read(""), None)),
            Some(AccessRefusal::Exists { id }.into())
        );
        let read_back = State::from_rows(state.rows()).unwrap();
        assert_eq!(read_back.access(id), state.access(id));
        let revoke = || AccessCommand::Revoke { id }.into();
        assert_eq!(
            apply(&mut state, revoke()),
            AccessOutcome::Revoked { id }.into()
        );
        assert_eq!(state.access(id), None);
        assert_eq!(
            refused(&mut state, revoke()),
            Some(AccessRefusal::NotFound { id }.into())
        );
    }

    #[test]
    fn what_a_token_cannot_be_is_refused() {
        let mut state = founded();
        let long = "x".repeat(MAX_PREFIX_BYTES + 1);
        for permissions in [
            vec![],
            vec![read("").remove(0); MAX_PERMISSIONS + 1],
            read(&long),
            read("a b"),
            read("ü"),
        ] {
            assert_eq!(
                refused(&mut state, create(1, permissions.clone(), None)),
                Some(AccessRefusal::InvalidPermissions.into()),
                "{permissions:?}"
            );
        }
        for rate in [0, MAX_PER_SECOND + 1] {
            let refusal = refused(&mut state, create(1, read(""), Some(rate)));
            assert_eq!(refusal, Some(AccessRefusal::InvalidRate.into()));
        }
        for id in 1..=MAX_TOKENS as u64 {
            assert_eq!(refused(&mut state, create(id, read(""), None)), None);
        }
        assert_eq!(
            refused(&mut state, create(0, read(""), None)),
            Some(AccessRefusal::TooMany.into())
        );
    }

    #[test]
    fn a_restored_cluster_has_no_token_of_its_backup() {
        let mut state = founded();
        apply(&mut state, create(1, read(""), None));
        restore(&mut state);
        assert_eq!(state.access(AccessId(1)), None);
    }

    #[test]
    fn an_id_is_sixteen_digits() {
        let id = AccessId(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "0123456789abcdef");
        assert_eq!(AccessId::parse("0123456789abcdef"), Some(id));
        for text in [
            "",
            "1",
            "0123456789ABCDEF",
            "+123456789abcdef",
            "0123456789abcdefa",
        ] {
            assert_eq!(AccessId::parse(text), None, "{text}");
        }
    }
}
