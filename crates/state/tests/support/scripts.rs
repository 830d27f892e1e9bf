//! Arbitrary entries over few names, workers and tokens, so that commands affect the same records.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use seqd_idgen::{Progression, Tick, WorkerId};
use seqd_state::{
    AccessId, AcquireLock, Attempt, BeginKey, ClusterCommand, Command, Entry, FencingToken,
    GrantToken, KeyClaim, KeyCommand, KeyName, KeySpace, LeaseId, Level, LockCommand, LockName,
    LogPosition, NextRequest, NodeId, Nonce, OneTimeCommand, OneTimeId, Revision, SegmentSizes,
    SequenceCommand, SequenceDefinition, SequenceMode, SequenceName, TakeLease, Tenant, TokenHash,
    WorkerCommand,
};

use super::commands::*;
use super::{name, stamp};

/// The applied membership in these scripts.
pub(crate) const MEMBERSHIP: Option<LogPosition> = Some(LogPosition { term: 1, index: 0 });

pub(crate) fn names() -> impl Strategy<Value = SequenceName> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("nobody")].prop_map(name)
}

/// Short and long progressions, ascending and descending, cycling or not. Some end soon.
pub(crate) fn progressions() -> impl Strategy<Value = Progression> {
    (-20i64..20, -7i64..8, -40i64..0, 1i64..400, any::<bool>()).prop_filter_map(
        "bounds of a progression",
        |(start, increment, min, max, cycle)| {
            Progression::new(start, increment, min, max, cycle).ok()
        },
    )
}

pub(crate) fn definitions() -> impl Strategy<Value = SequenceDefinition> {
    let usual = Progression::with_defaults(None, None, None, None, false).unwrap();
    let progression = prop_oneof![2 => Just(usual), 3 => progressions()];
    let mode = prop_oneof![Just(SequenceMode::Segment), Just(SequenceMode::Strict)];
    (mode, progression, 0u64..3, "[a-z]{0,3}").prop_map(|(mode, progression, min, description)| {
        let segment = SegmentSizes {
            target_ms: 60_000,
            min,
            max: 1_000,
        };
        SequenceDefinition {
            mode,
            progression,
            segment,
            description,
        }
    })
}

fn layouts() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("js53"),
        2 => Just("twitter"),
        1 => Just("default"),
        1 => Just("uid-generator"),
        1 => Just("none"),
    ]
    .prop_map(str::to_owned)
}

/// Returns a tenant per text.
fn tenant_of(text: &str) -> Tenant {
    Tenant::of_token(AccessId(text.bytes().map(u64::from).sum()))
}

fn lease_commands() -> impl Strategy<Value = Command> {
    let worker = (0u32..3).prop_map(WorkerId);
    let lease = (4u64..14).prop_map(LeaseId);
    let fence = (0u64..80_000).prop_map(Tick);
    let take = (
        layouts(),
        "[ab]",
        option::of(1u64..5),
        0u64..4,
        fence.clone(),
        option::of(0u32..2),
    )
        .prop_map(|(layout, owner, node, boot, fence, datacenter)| {
            let node = node.map(NodeId);
            Command::Workers(WorkerCommand::TakeLease(TakeLease {
                tenant: tenant_of(&owner),
                layout,
                owner,
                node,
                boot,
                fence,
                datacenter,
            }))
        });
    let extend = (layouts(), worker.clone(), lease.clone(), fence.clone())
        .prop_map(|(layout, worker, lease, fence)| extend(layout, worker, lease, fence));
    let release = (layouts(), worker, lease, option::of(fence))
        .prop_map(|(layout, worker, lease, last_tick)| release(layout, worker, lease, last_tick));
    prop_oneof![3 => take, 2 => extend, 2 => release]
}

fn node_commands() -> impl Strategy<Value = Command> {
    let node = (1u64..9).prop_map(NodeId);
    let allocate = ("n[3-5]", 0u64..2).prop_map(|(name, nonce)| join(&name, nonce));
    let start =
        (node.clone(), 0u64..4, 0u64..2).prop_map(|(node, boot, nonce)| start(node, boot, nonce));
    let remove = node.prop_map(remove);
    prop_oneof![2 => allocate, 4 => start, 1 => remove]
}

fn sequence_commands() -> impl Strategy<Value = Command> {
    let token = (4u64..24).prop_map(GrantToken);
    let create = (names(), definitions(), "[ab]").prop_map(|(name, definition, creator)| {
        let tenant = tenant_of(&creator);
        SequenceCommand::Create {
            name,
            definition,
            tenant,
        }
        .into()
    });
    let delete = (names(), option::of((1u64..3).prop_map(Revision)))
        .prop_map(|(name, if_revision)| delete(name, if_revision));
    let grant = (names(), 0u64..60, option::of(token.clone()))
        .prop_map(|(name, size, after)| grant(name, size, after));
    let give_back = (names(), token, 0u64..200)
        .prop_map(|(name, token, first_unused)| return_tail(name, token, first_unused));
    let advance = (names(), -50i64..450).prop_map(|(name, to)| advance(name, to));
    let request = (names(), 0u64..90).prop_map(|(name, count)| NextRequest { name, count });
    let next = request.prop_map(|request| SequenceCommand::Next(request).into());
    prop_oneof![3 => create, 1 => delete, 4 => grant, 3 => give_back, 1 => advance, 4 => next]
}

fn key_commands() -> impl Strategy<Value = Command> {
    let space = prop_oneof![
        3 => Just(KeySpace::Users),
        1 => (0u64..2).prop_map(|access| KeySpace::Requests { access }),
    ];
    let key = (space, "[kl]").prop_map(|(space, key)| KeyName { space, key });
    let claim = (4u64..30).prop_map(KeyClaim);
    let ttls = (900u64..40_000, 90u64..30_000);
    let begin = (key.clone(), ttls, "[fg]", "[no]?").prop_map(
        |(name, (ttl_ms, claim_ttl_ms), fingerprint, nonce)| {
            Command::Keys(KeyCommand::Begin(BeginKey {
                tenant: tenant_of(&fingerprint),
                name,
                ttl_ms,
                claim_ttl_ms,
                fingerprint,
                nonce,
            }))
        },
    );
    let complete = (key.clone(), claim.clone(), "[rs]{0,3}")
        .prop_map(|(name, claim, result)| complete(name, claim, &result));
    let abandon = (key.clone(), claim).prop_map(|(name, claim)| abandon(name, claim));
    let remove = vec(key, 0..3).prop_map(remove_keys);
    prop_oneof![8 => begin, 6 => complete, 2 => abandon, 1 => remove]
}

fn one_time_commands() -> impl Strategy<Value = Command> {
    let issue = (vec(0u64..6, 0..4), 900u64..40_000, "[ab]").prop_map(|(ids, ttl_ms, owner)| {
        let token = |id: u64| (OneTimeId(id), TokenHash([id as u8; 32]));
        let tokens = ids.into_iter().map(token).collect();
        let tenant = tenant_of(&owner);
        OneTimeCommand::Issue {
            tokens,
            ttl_ms,
            tenant,
        }
        .into()
    });
    let consume =
        (0u64..6, 0u64..6, "[no]?").prop_map(|(id, secret, nonce)| consume(id, secret, &nonce));
    let remove = vec(0u64..6, 0..3).prop_map(remove_tokens);
    prop_oneof![3 => issue, 6 => consume, 1 => remove]
}

fn lock_commands() -> impl Strategy<Value = Command> {
    let name = || prop_oneof![Just("x"), Just("y")].prop_map(|name| LockName::new(name).unwrap());
    let owner = || "[ab]".prop_map(String::from);
    let token = || (4u64..24).prop_map(FencingToken);
    let times = || (100u64..20_000, 0u64..20_000, 0u64..2_000);
    let nonce = || ((0u128..5).prop_map(Nonce), (1u64..7).prop_map(Attempt));
    let acquire = (name(), owner(), nonce(), times(), 1u32..3, any::<bool>()).prop_map(
        |(name, owner, (nonce, attempt), (ttl_ms, wait_ms, lock_delay_ms), permits, shared)| {
            LockCommand::Acquire(AcquireLock {
                tenant: tenant_of(&owner),
                name,
                owner,
                nonce,
                attempt,
                ttl_ms,
                wait_ms,
                permits,
                shared,
                lock_delay_ms,
            })
        },
    );
    let renew = (name(), token(), times()).prop_map(|(name, token, times)| {
        let ttl_ms = times.0;
        LockCommand::Renew {
            name,
            token,
            ttl_ms,
        }
    });
    let release = (name(), token()).prop_map(|(name, token)| LockCommand::Release { name, token });
    let broken = (name(), proptest::option::of(token()))
        .prop_map(|(name, token)| LockCommand::Break { name, token });
    let withdraw = (name(), nonce()).prop_map(|(name, (nonce, attempt))| LockCommand::Withdraw {
        name,
        nonce,
        attempt,
    });
    prop_oneof![4 => acquire, 1 => renew, 2 => release, 2 => withdraw, 1 => broken]
        .prop_map(Command::from)
}

pub(crate) fn commands() -> impl Strategy<Value = Command> {
    prop_oneof![
        1 => Just(found()),
        1 => (0u64..90_000).prop_map(|at| stamp_restoration(stamp(at, 0).wall_ms)),
        1 => (1u32..=2).prop_map(|to| Command::Cluster(ClusterCommand::RaiseLevel {
            to: Level(to),
            membership: LogPosition { term: 1, index: 0 },
        })),
        4 => lease_commands(),
        2 => node_commands(),
        6 => sequence_commands(),
        3 => key_commands(),
        2 => one_time_commands(),
        4 => lock_commands(),
    ]
}

/// Entries whose wall clock and cluster clock step in either direction. Some raise the level.
pub(crate) fn entries(count: usize) -> impl Strategy<Value = Vec<Entry>> {
    Level::widen();
    let entry = (0u64..60_000, 0u64..60_000, vec(commands(), 0..6)).prop_map(
        |(wall, cluster, commands)| Entry {
            stamp: stamp(wall, cluster),
            commands,
        },
    );
    vec(entry, 1..count).prop_map(|mut entries| {
        let start = Entry {
            stamp: stamp(0, 0),
            commands: vec![found()],
        };
        entries.insert(0, start);
        entries
    })
}
