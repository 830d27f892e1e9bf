//! A function for each command, and a function that applies one command.

use seqd_idgen::{FieldOrder, FirstSequence, Layout, LayoutSpec, Tick, WallMs, WorkerId};
use seqd_state::{
    AccessCommand, AccessId, AllocateNodeId, BeginKey, ClusterCommand, Command, DefinitionChange,
    Entry, Found, GrantToken, KeyClaim, KeyCommand, KeyName, KeySpace, LayoutCommand, LeaseId,
    NextRequest, NodeId, OneTimeCommand, OneTimeId, Outcome, Permission, Revision, Scope,
    SequenceCommand, SequenceDefinition, SequenceName, Stamp, State, TakeLease, TokenHash,
    WorkerCommand,
};

use super::{SKEW_MS, WINDOW_MS, name};

pub(crate) fn apply_one(state: &mut State, stamp: Stamp, command: Command) -> Outcome {
    let commands = vec![command];
    let mut outcomes = state.apply(&Entry { stamp, commands }, None);
    outcomes.pop().unwrap()
}

pub(crate) fn found() -> Command {
    let founders = [1, 2, 3].map(|id| (NodeId(id), format!("n{id}")));
    let found = Found {
        cluster_id: "c1".to_owned(),
        window_ms: WINDOW_MS,
        max_peer_skew_ms: SKEW_MS,
        founders: founders.into(),
    };
    ClusterCommand::Found(found).into()
}

pub(crate) fn join(name: &str, nonce: u64) -> Command {
    let request = AllocateNodeId {
        name: name.to_owned(),
        peer: format!("{name}:7401"),
        http: format!("http://{name}:7400"),
        nonce,
    };
    ClusterCommand::AllocateNodeId(request).into()
}

pub(crate) fn start(node: NodeId, boot: u64, nonce: u64) -> Command {
    ClusterCommand::RegisterStart { node, boot, nonce }.into()
}

pub(crate) fn remove(node: NodeId) -> Command {
    ClusterCommand::MarkRemoved { node }.into()
}

pub(crate) fn stamp_restoration(wall_ms: WallMs) -> Command {
    ClusterCommand::StampRestoration { wall_ms }.into()
}

/// Takes a lease for an external generator.
pub(crate) fn take(layout: &str, owner: &str, fence: Tick) -> Command {
    let request = TakeLease {
        tenant: seqd_state::Tenant::OPERATOR,
        layout: layout.to_owned(),
        owner: owner.to_owned(),
        node: None,
        boot: 0,
        fence,
        datacenter: None,
    };
    WorkerCommand::TakeLease(request).into()
}

pub(crate) fn extend(layout: String, worker: WorkerId, lease: LeaseId, fence: Tick) -> Command {
    let extend = WorkerCommand::ExtendLease {
        layout,
        worker,
        lease,
        fence,
    };
    extend.into()
}

pub(crate) fn release(
    layout: String,
    worker: WorkerId,
    lease: LeaseId,
    last_tick: Option<Tick>,
) -> Command {
    let release = WorkerCommand::ReleaseLease {
        layout,
        worker,
        lease,
        last_tick,
    };
    release.into()
}

pub(crate) fn create(name: SequenceName, definition: SequenceDefinition) -> Command {
    SequenceCommand::Create {
        tenant: seqd_state::Tenant::OPERATOR,
        name,
        definition,
    }
    .into()
}

pub(crate) fn delete(name: SequenceName, if_revision: Option<Revision>) -> Command {
    SequenceCommand::Delete { name, if_revision }.into()
}

pub(crate) fn grant(name: SequenceName, size: u64, after: Option<GrantToken>) -> Command {
    SequenceCommand::GrantSegment { name, size, after }.into()
}

pub(crate) fn return_tail(name: SequenceName, token: GrantToken, first_unused: u64) -> Command {
    let return_tail = SequenceCommand::ReturnTail {
        name,
        token,
        first_unused,
    };
    return_tail.into()
}

pub(crate) fn advance(name: SequenceName, to: i64) -> Command {
    SequenceCommand::Advance { name, to }.into()
}

pub(crate) fn update(
    name: SequenceName,
    change: DefinitionChange,
    if_revision: Option<Revision>,
) -> Command {
    let update = SequenceCommand::Update {
        name,
        change,
        if_revision,
    };
    update.into()
}

pub(crate) fn strict_next(text: &str, count: u64) -> Command {
    let name = name(text);
    SequenceCommand::Next(NextRequest { name, count }).into()
}

pub(crate) fn create_token(id: AccessId) -> Command {
    let permission = |scope, prefix: &str| Permission {
        scope,
        prefix: prefix.to_owned(),
    };
    Command::Access(AccessCommand::Create {
        id,
        hash: TokenHash([9; 32]),
        permissions: vec![
            permission(Scope::Read, ""),
            permission(Scope::Allocate, "order."),
            permission(Scope::Admin, "test/"),
        ],
        description: "billing".to_owned(),
        expires_ms: Some(1_798_761_600_000),
        per_second: Some(100),
    })
}

pub(crate) fn user_key(key: &str) -> KeyName {
    KeyName {
        space: KeySpace::Users,
        key: key.to_owned(),
    }
}

/// Begins a user's key for a minute, with a claim of ten seconds.
pub(crate) fn begin(key: &str, fingerprint: &str, nonce: &str) -> Command {
    KeyCommand::Begin(BeginKey {
        tenant: seqd_state::Tenant::OPERATOR,
        name: user_key(key),
        ttl_ms: 60_000,
        claim_ttl_ms: 10_000,
        fingerprint: fingerprint.to_owned(),
        nonce: nonce.to_owned(),
    })
    .into()
}

pub(crate) fn complete(name: KeyName, claim: KeyClaim, result: &str) -> Command {
    let result = result.as_bytes().to_vec().into();
    let complete = KeyCommand::Complete {
        name,
        claim,
        result,
    };
    complete.into()
}

pub(crate) fn abandon(name: KeyName, claim: KeyClaim) -> Command {
    KeyCommand::Abandon { name, claim }.into()
}

pub(crate) fn remove_keys(names: impl Into<Vec<KeyName>>) -> Command {
    let names = names.into();
    KeyCommand::Remove { names }.into()
}

pub(crate) fn remove_tokens(ids: impl IntoIterator<Item = u64>) -> Command {
    let ids = ids.into_iter().map(OneTimeId).collect();
    OneTimeCommand::Remove { ids }.into()
}

/// Issues one-time tokens, each with a hash of its number.
pub(crate) fn issue(ids: impl IntoIterator<Item = u64>, ttl_ms: u64) -> Command {
    let token = |id: u64| (OneTimeId(id), TokenHash([id as u8; 32]));
    let tokens = ids.into_iter().map(token).collect();
    OneTimeCommand::Issue {
        tenant: seqd_state::Tenant::OPERATOR,
        tokens,
        ttl_ms,
    }
    .into()
}

pub(crate) fn consume(id: u64, secret: u64, nonce: &str) -> Command {
    let consume = OneTimeCommand::Consume {
        id: OneTimeId(id),
        hash: TokenHash([secret as u8; 32]),
        nonce: nonce.to_owned(),
    };
    consume.into()
}

/// Creates a layout with this many time bits, 8 worker bits, 8 sequence bits, and the epoch of the
/// tests.
pub(crate) fn create_layout(name: &str, time_bits: u8) -> Command {
    let layout = Layout::new(LayoutSpec {
        name: name.to_owned(),
        epoch_ms: super::EPOCH_MS,
        tick_ms: 10,
        time_bits,
        datacenter_bits: 2,
        worker_bits: 6,
        sequence_bits: 8,
        order: FieldOrder::TickSequenceWorker,
        first_sequence: FirstSequence::Spread,
    });
    let layout = layout.unwrap();
    LayoutCommand::Create { layout }.into()
}
