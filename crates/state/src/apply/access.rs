//! Creates, revokes and removes access tokens.

use seqd_idgen::WallMs;

use crate::access::{AccessCommand, AccessOutcome, AccessRecord, AccessRefusal, MAX_TOKENS};
use crate::domains::Refusal;
use crate::table::Table;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{
        MAX_PER_SECOND, MAX_PERMISSIONS, MAX_PREFIX_BYTES, Permission, Scope, TokenHash,
    };
    use crate::domains::{Command, Outcome};
    use crate::newtypes::AccessId;
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
    fn an_invalid_token_is_refused() {
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
