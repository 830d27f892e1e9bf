//! Checks of a command's texts and numbers, which do not depend on the state.
//!
//! Both `apply` and the proposer call these functions, so that a command that would be refused
//! anyway takes no place in the log.

use std::collections::BTreeSet;

use crate::access::{
    AccessCommand, AccessRefusal, MAX_PER_SECOND, MAX_PERMISSIONS, MAX_PREFIX_BYTES, Permission,
};
use crate::cluster::commands::{
    AllocateNodeId, ClusterCommand, ClusterRefusal, Found, FoundingError, MAX_FOUNDER_ID,
    MAX_FOUNDERS, MAX_PEER_SKEW_MS, MAX_WINDOW_MS,
};
use crate::domains::{Command, Refusal};
use crate::newtypes::NodeId;
use crate::sequences::commands::{MAX_STRICT_COUNT, SequenceCommand, SequenceRefusal};
use crate::sequences::definition::MAX_GRANT_SIZE;
use crate::text::{self, TextField};
use crate::workers::commands::WorkerCommand;

impl Command {
    /// Refuses a command that is invalid in every state.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Cluster(ClusterCommand::Found(found)) => found.check(),
            Self::Cluster(ClusterCommand::AllocateNodeId(asked)) => asked.check(),
            Self::Workers(command) => command.check(),
            Self::Sequences(command) => command.check(),
            Self::Access(command) => command.check(),
            Self::Keys(command) => Ok(command.check()?),
            Self::OneTime(command) => Ok(command.check()?),
            Self::Locks(command) => Ok(command.check()?),
            #[cfg(feature = "test-next-level")]
            Self::Notes(command) => Ok(command.check()?),
            Self::Cluster(_) | Self::Layouts(_) => Ok(()),
        }
    }
}

impl Found {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        text::check(TextField::ClusterId, &self.cluster_id)?;
        for (_, name) in &self.founders {
            text::check(TextField::NodeName, name)?;
        }
        let ids: BTreeSet<_> = self.founders.iter().map(|(id, _)| *id).collect();
        let names: BTreeSet<_> = self.founders.iter().map(|(_, name)| name).collect();
        let count = self.founders.len();
        let out_of_range = |id: &NodeId| *id == NodeId(0) || *id > MAX_FOUNDER_ID;
        let problem = if count == 0 || count > MAX_FOUNDERS {
            FoundingError::FounderCount
        } else if ids.len() != count || names.len() != count || ids.iter().any(out_of_range) {
            FoundingError::Founders
        } else if self.window_ms == 0 || self.window_ms > MAX_WINDOW_MS {
            FoundingError::Window
        } else if self.max_peer_skew_ms > MAX_PEER_SKEW_MS {
            FoundingError::PeerSkew
        } else {
            return Ok(());
        };
        Err(ClusterRefusal::InvalidFounding(problem).into())
    }
}

impl AllocateNodeId {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        text::check(TextField::NodeName, &self.name)?;
        text::check(TextField::PeerAddress, &self.peer)?;
        text::check(TextField::ClientUrl, &self.http)?;
        Ok(())
    }
}

impl WorkerCommand {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let layout = match self {
            Self::TakeLease(asked) => {
                text::check(TextField::Owner, &asked.owner)?;
                &asked.layout
            }
            Self::ExtendLease { layout, .. } | Self::ReleaseLease { layout, .. } => layout,
        };
        Ok(text::check(TextField::LayoutName, layout)?)
    }
}

impl SequenceCommand {
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        match self {
            Self::Create { definition, .. } => {
                text::check(TextField::Description, &definition.description)?;
                let checked = definition.check();
                checked.map_err(|error| SequenceRefusal::InvalidDefinition(error).into())
            }
            Self::GrantSegment { size, .. } | Self::GrantWindow { size, .. } => {
                Ok(check_count(*size, MAX_GRANT_SIZE)?)
            }
            Self::Next(request) => Ok(check_count(request.count, MAX_STRICT_COUNT)?),
            Self::Update { change, .. } => {
                let text = change.description.as_deref().unwrap_or_default();
                Ok(text::check(TextField::Description, text)?)
            }
            Self::Delete { .. }
            | Self::ReturnTail { .. }
            | Self::ReturnWindow { .. }
            | Self::Advance { .. } => Ok(()),
        }
    }
}

pub(crate) fn check_count(count: u64, limit: u64) -> Result<(), SequenceRefusal> {
    if (1..=limit).contains(&count) {
        return Ok(());
    }
    Err(SequenceRefusal::CountOutOfRange { count, limit })
}

impl AccessCommand {
    /// Refuses a command that is invalid in every state.
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

#[cfg(test)]
mod tests {
    use seqd_idgen::{Progression, Tick, WorkerId};

    use super::*;
    use crate::access::TokenHash;
    use crate::domains::Outcome;
    use crate::keys::commands::{
        BeginKey, KeyCommand, MAX_CLAIM_TTL_MS, MAX_REMOVED, MAX_TTL_MS, MIN_CLAIM_TTL_MS,
        MIN_TTL_MS,
    };
    use crate::keys::record::{
        KeyClaim, KeyName, KeySpace, MAX_ANSWER_BYTES, MAX_FINGERPRINT_BYTES, MAX_KEY_BYTES,
        MAX_NONCE_BYTES, MAX_RESULT_BYTES,
    };
    use crate::locks::commands::{
        AcquireLock, LockCommand, MAX_LOCK_DELAY_MS, MAX_LOCK_TTL_MS, MAX_LOCK_WAIT_MS,
        MIN_LOCK_TTL_MS,
    };
    use crate::locks::names::{Attempt, FencingToken, LockName, MAX_LOCK_OWNER_BYTES, Nonce};
    use crate::locks::record::MAX_HOLDERS;
    use crate::newtypes::{LeaseId, SequenceName};
    use crate::sequences::commands::NextRequest;
    use crate::sequences::definition::{SegmentSizes, SequenceDefinition, SequenceMode};
    use crate::state::State;
    use crate::testing::{entry, founded};
    use crate::tokens::commands::{MAX_ISSUED, OneTimeCommand};
    use crate::tokens::record::OneTimeId;
    use crate::workers::commands::TakeLease;

    fn long(field: TextField) -> String {
        "x".repeat(field.max_bytes() + 1)
    }

    fn create(description: String, min: u64) -> Command {
        let segment = SegmentSizes {
            target_ms: 60_000,
            min,
            max: 1_000,
        };
        let definition = SequenceDefinition {
            mode: SequenceMode::Segment,
            progression: Progression::new(1, 1, 1, 9, false).unwrap(),
            segment,
            description,
        };
        SequenceCommand::Create {
            tenant: crate::Tenant::OPERATOR,
            name: order(),
            definition,
        }
        .into()
    }

    fn order() -> SequenceName {
        "order".parse().unwrap()
    }

    fn next(count: u64) -> Command {
        let name = order();
        SequenceCommand::Next(NextRequest { name, count }).into()
    }

    fn grant(size: u64) -> Command {
        SequenceCommand::GrantSegment {
            name: order(),
            size,
            after: None,
        }
        .into()
    }

    fn join(name: String, peer: String, http: String) -> Command {
        ClusterCommand::AllocateNodeId(AllocateNodeId {
            name,
            peer,
            http,
            nonce: 1,
        })
        .into()
    }

    fn take(owner: String) -> Command {
        take_of("default".to_owned(), owner)
    }

    fn take_of(layout: String, owner: String) -> Command {
        WorkerCommand::TakeLease(TakeLease {
            tenant: crate::Tenant::OPERATOR,
            layout,
            owner,
            node: None,
            boot: 0,
            fence: Tick(1),
            datacenter: None,
        })
        .into()
    }

    fn extend(layout: String) -> Command {
        let (worker, lease, fence) = (WorkerId(1), LeaseId(1), Tick(1));
        WorkerCommand::ExtendLease {
            layout,
            worker,
            lease,
            fence,
        }
        .into()
    }

    fn release(layout: String) -> Command {
        let (worker, lease) = (WorkerId(1), LeaseId(1));
        WorkerCommand::ReleaseLease {
            layout,
            worker,
            lease,
            last_tick: None,
        }
        .into()
    }

    fn begin(key: &str, ttl_ms: u64, claim_ttl_ms: u64, nonce: &str) -> Command {
        KeyCommand::Begin(BeginKey {
            tenant: crate::Tenant::OPERATOR,
            name: key_of(KeySpace::Users, key),
            ttl_ms,
            claim_ttl_ms,
            fingerprint: "f".repeat(MAX_FINGERPRINT_BYTES),
            nonce: nonce.to_owned(),
        })
        .into()
    }

    fn key_of(space: KeySpace, key: &str) -> KeyName {
        let key = key.to_owned();
        KeyName { space, key }
    }

    fn complete(space: KeySpace, result: Vec<u8>) -> Command {
        KeyCommand::Complete {
            name: key_of(space, "k"),
            claim: KeyClaim(1),
            result: result.into(),
        }
        .into()
    }

    fn remove(count: usize) -> Command {
        let names = vec![key_of(KeySpace::Users, "k"); count];
        KeyCommand::Remove { names }.into()
    }

    fn remove_tokens(count: usize) -> Command {
        let ids = vec![OneTimeId(1); count];
        OneTimeCommand::Remove { ids }.into()
    }

    fn issue(count: u64, ttl_ms: u64) -> Command {
        let token = |id| (OneTimeId(id), TokenHash([0; 32]));
        let tokens = (0..count).map(token).collect();
        OneTimeCommand::Issue {
            tenant: crate::Tenant::OPERATOR,
            tokens,
            ttl_ms,
        }
        .into()
    }

    fn consume(nonce: String) -> Command {
        let (id, hash) = (OneTimeId(1), TokenHash([0; 32]));
        OneTimeCommand::Consume { id, hash, nonce }.into()
    }

    fn lock(change: impl FnOnce(&mut AcquireLock)) -> Command {
        let mut asked = AcquireLock {
            tenant: crate::Tenant::OPERATOR,
            name: "jobs/1".parse().unwrap(),
            owner: "pod 1".to_owned(),
            nonce: Nonce(1),
            attempt: Attempt(1),
            ttl_ms: MIN_LOCK_TTL_MS,
            wait_ms: MAX_LOCK_WAIT_MS,
            permits: 1,
            shared: false,
            lock_delay_ms: MAX_LOCK_DELAY_MS,
        };
        change(&mut asked);
        LockCommand::Acquire(asked).into()
    }

    fn of_lock(command: impl FnOnce(LockName, FencingToken) -> LockCommand) -> Command {
        let name = "jobs/1".parse().unwrap();
        command(name, FencingToken(4)).into()
    }

    /// Asserts that the check before a proposal and `apply` refuse each unsound command alike, and
    /// that the check accepts each sound command.
    fn assert_distinguished<const U: usize, const S: usize>(
        unsound: [Command; U],
        sound: [Command; S],
    ) {
        for command in unsound {
            let refusal = command.check().unwrap_err();
            let applied = founded().apply(&entry(1, vec![command]), None);
            assert_eq!(applied, [Outcome::Refused(refusal)]);
        }
        for command in sound {
            assert_eq!(command.check(), Ok(()));
        }
    }

    #[test]
    fn the_check_before_a_proposal_refuses_the_same_commands_as_apply() {
        let ok = || "x".to_owned();
        let unsound = [
            create(long(TextField::Description), 1),
            create(ok(), 0),
            next(0),
            next(MAX_STRICT_COUNT + 1),
            grant(0),
            grant(MAX_GRANT_SIZE + 1),
            join(long(TextField::NodeName), ok(), ok()),
            join(ok(), long(TextField::PeerAddress), ok()),
            join(ok(), ok(), long(TextField::ClientUrl)),
            take(long(TextField::Owner)),
            take_of(long(TextField::LayoutName), ok()),
            extend(long(TextField::LayoutName)),
            release(long(TextField::LayoutName)),
        ];
        let sound = [
            create(ok(), 1),
            next(1),
            grant(1),
            take(ok()),
            extend(ok()),
            release(ok()),
        ];
        assert_distinguished(unsound, sound);
    }

    #[test]
    fn keys_and_tokens_are_refused_before_they_are_proposed_as_apply_does() {
        let unsound = [
            begin("", 1_000, 100, ""),
            begin(&"k".repeat(MAX_KEY_BYTES + 1), 1_000, 100, ""),
            begin("\n", 1_000, 100, ""),
            begin("ü", 1_000, 100, ""),
            begin("k", MIN_TTL_MS - 1, 100, ""),
            begin("k", MAX_TTL_MS + 1, 100, ""),
            begin("k", 1_000, MIN_CLAIM_TTL_MS - 1, ""),
            begin("k", 1_000, MAX_CLAIM_TTL_MS + 1, ""),
            begin("k", 1_000, 100, &"n".repeat(MAX_NONCE_BYTES + 1)),
            complete(KeySpace::Users, vec![b'r'; MAX_RESULT_BYTES + 1]),
            complete(KeySpace::Users, vec![0xff]),
            complete(
                KeySpace::Requests { access: 0 },
                vec![b'r'; MAX_ANSWER_BYTES + 1],
            ),
            remove(0),
            remove(MAX_REMOVED + 1),
            remove_tokens(0),
            remove_tokens(MAX_ISSUED + 1),
            issue(0, 1_000),
            issue(MAX_ISSUED as u64 + 1, 1_000),
            issue(1, MIN_TTL_MS - 1),
            issue(1, MAX_TTL_MS + 1),
            consume("n".repeat(MAX_NONCE_BYTES + 1)),
        ];
        let sound = [
            begin(&"k ".repeat(127), MIN_TTL_MS, MIN_CLAIM_TTL_MS, "n"),
            begin(
                "k",
                MAX_TTL_MS,
                MAX_CLAIM_TTL_MS,
                &"n".repeat(MAX_NONCE_BYTES),
            ),
            complete(KeySpace::Users, vec![b'r'; MAX_RESULT_BYTES]),
            complete(
                KeySpace::Requests { access: 0 },
                vec![b'r'; MAX_ANSWER_BYTES],
            ),
            remove(MAX_REMOVED),
            remove_tokens(MAX_ISSUED),
            issue(MAX_ISSUED as u64, MAX_TTL_MS),
            consume("n".repeat(MAX_NONCE_BYTES)),
        ];
        assert_distinguished(unsound, sound);
    }

    #[test]
    fn locks_are_refused_before_they_are_proposed_as_apply_does() {
        let unsound = [
            lock(|asked| asked.owner = "x".repeat(MAX_LOCK_OWNER_BYTES + 1)),
            lock(|asked| asked.owner.clear()),
            lock(|asked| asked.attempt = Attempt(0)),
            lock(|asked| asked.ttl_ms = MIN_LOCK_TTL_MS - 1),
            lock(|asked| asked.ttl_ms = MAX_LOCK_TTL_MS + 1),
            lock(|asked| asked.wait_ms = MAX_LOCK_WAIT_MS + 1),
            lock(|asked| asked.lock_delay_ms = MAX_LOCK_DELAY_MS + 1),
            lock(|asked| asked.permits = 0),
            lock(|asked| asked.permits = MAX_HOLDERS as u32 + 1),
            lock(|asked| (asked.permits, asked.shared) = (2, true)),
            of_lock(|name, token| LockCommand::Renew {
                name,
                token,
                ttl_ms: 1,
            }),
        ];
        let sound = [
            lock(|_| ()),
            of_lock(|name, token| LockCommand::Release { name, token }),
            of_lock(|name, token| LockCommand::Break {
                name,
                token: Some(token),
            }),
        ];
        assert_distinguished(unsound, sound);
    }

    #[test]
    fn a_founding_is_refused_for_what_it_is_only_where_there_is_none() {
        let founding = Command::from(ClusterCommand::Found(Found {
            cluster_id: long(TextField::ClusterId),
            window_ms: 1,
            max_peer_skew_ms: 1,
            founders: vec![(NodeId(1), "n1".to_owned())],
        }));
        let refusal = founding.check().unwrap_err();
        let first = State::new().apply(&entry(1, vec![founding.clone()]), None);
        assert_eq!(first, [Outcome::Refused(refusal.clone())]);
        let later = founded().apply(&entry(1, vec![founding]), None);
        assert_ne!(later, [Outcome::Refused(refusal)]);
    }
}
