//! The table of operations, each with the service that serves it.

use seqd_api::{AddMember, JsonText, MemberChange, Problem, Typed, UpdateMember, op};
use seqd_raft::ChangeOfMembers;
use serde::Deserialize;

use super::keyed::keyed;
use super::{ids, layouts, node, pages, sequences, snapshot, uuids};
use crate::access::Right;
use crate::http::etag::if_match;
use crate::http::{Call, Route};
use crate::problems::invalid;
use crate::services::{ServiceError, Services, sequence_name};

type R = Route<Services>;

/// Returns all operations of the clients' port.
pub(super) fn table() -> Vec<R> {
    [
        identifiers(),
        sequences_and_segments(),
        keys(),
        one_time_tokens(),
        workers(),
        locks(),
        cluster(),
        members(),
        access(),
        this_node(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn identifiers() -> Vec<R> {
    vec![
        R::raw(op::GetId, keyed(ids::one)),
        R::raw(op::GetIds, keyed(ids::many)),
        R::json(
            op::GetIdParts,
            |s, c| async move { ids::parts(&s, &c).await },
        ),
        R::raw(op::GetUuid, uuids::one),
        R::raw(op::GetUuids, uuids::many),
        R::json(op::NextTimestamps, |s, c| async move {
            s.timestamps.next(&c.fields, c.deadline).await
        }),
        R::json(
            op::ListLayouts,
            |s, c| async move { s.layouts.list(&c.fields) },
        ),
        R::raw(op::CreateLayoutOp, layouts::create),
        R::json(op::GetLayout, |s, c| async move {
            s.layouts.get(c.name(), &c.fields)
        }),
        R::json(op::EncodeId, |s, c| async move {
            s.layouts.encode(c.name(), &c.fields)
        }),
    ]
}

fn sequences_and_segments() -> Vec<R> {
    vec![
        R::json(op::ListSequences, |s, c| async move {
            let permitted = s.callers.prefixes(c.caller);
            s.sequences.list(&c.fields, &permitted, c.deadline).await
        }),
        R::raw(op::GetSequence, sequences::get),
        R::raw(op::PutSequence, sequences::put),
        R::raw(op::PatchSequence, sequences::patch),
        R::planned(
            op::DeleteSequence,
            |s, c| async move {
                let (name, revision) = (sequence_name(c.name())?, if_match(&c.headers)?);
                let plan = s.sequences.plan_delete(&name, revision, c.deadline);
                Ok::<_, Problem>(plan.await?)
            },
            |s, c| async move {
                let (name, revision) = (sequence_name(c.name())?, if_match(&c.headers)?);
                let deleted = s.sequences.delete(&name, revision, c.deadline);
                Ok::<_, Problem>(deleted.await?)
            },
        ),
        R::raw(op::NextValues, keyed(sequences::next)),
        R::planned(
            op::AdvanceSequence,
            |s, c| async move {
                let name = sequence_name(c.name())?;
                s.sequences.plan_advance(&name, &c.fields, c.deadline).await
            },
            |s, c| async move {
                let name = sequence_name(c.name())?;
                s.sequences.advance(&name, &c.fields, c.deadline).await
            },
        ),
        R::raw(op::GrantSegment, keyed(sequences::grant)),
        R::json(op::ReturnSegment, |s, c| async move {
            let name = sequence_name(c.name())?;
            let grant = c.path.get(1).and_then(|text| text.parse().ok());
            let missing = || invalid("the path must end in the number of the grant");
            let grant = grant.ok_or_else(missing)?;
            let returned = s.sequences.give_back(name, grant, &c.fields, c.deadline);
            Ok::<_, Problem>(returned.await?)
        }),
    ]
}

/// The result of a completed key, as the request body contains it.
#[derive(Deserialize)]
struct Written {
    result: Option<JsonText>,
}

fn keys() -> Vec<R> {
    vec![
        R::json(op::ListKeys, |s, c| async move {
            s.keys.list(&c.fields, c.deadline).await
        }),
        R::planned(
            op::DeleteKeys,
            |s, c| async move { s.keys.plan_delete_matching(&c.fields, c.deadline).await },
            |s, c| async move { s.keys.delete_matching(&c.fields, c.deadline).await },
        ),
        R::json(op::GetKey, |s, c| async move {
            s.keys.get(c.name(), &c.fields, c.deadline).await
        }),
        R::planned(
            op::DeleteKey,
            |s, c| async move { s.keys.plan_delete(c.name(), c.deadline).await },
            |s, c| async move { s.keys.delete(c.name(), c.deadline).await },
        ),
        R::json(op::BeginKeyOp, |s, c| async move {
            let begun = (s.keys).begin(c.name(), c.fields.clone(), c.tenant, c.deadline);
            begun.await
        }),
        R::json(op::CompleteKeyOp, |s, c| async move {
            let written = serde_json::from_slice::<Written>(&c.body).ok();
            let result = written.and_then(|written| written.result);
            let kept = (s.keys).complete(c.name(), c.fields.clone(), result, c.deadline);
            kept.await
        }),
        R::json(op::AbandonKeyOp, |s, c| async move {
            s.keys.abandon(c.name(), c.fields.clone(), c.deadline).await
        }),
    ]
}

fn one_time_tokens() -> Vec<R> {
    vec![
        R::json(op::ListOneTimeTokens, |s, c| async move {
            s.one_time.list(&c.fields, c.deadline).await
        }),
        R::json(op::IssueOneTimeTokens, |s, c| async move {
            s.one_time.issue(&c.fields, c.tenant, c.deadline).await
        }),
        R::planned(
            op::DeleteOneTimeTokens,
            |s, c| async move { s.one_time.plan_delete_matching(&c.fields, c.deadline).await },
            |s, c| async move { s.one_time.delete_matching(&c.fields, c.deadline).await },
        ),
        R::planned(
            op::DeleteOneTimeToken,
            |s, c| async move { s.one_time.plan_delete(c.name(), c.deadline).await },
            |s, c| async move { s.one_time.delete(c.name(), c.deadline).await },
        ),
        R::json(op::ConsumeOneTimeToken, |s, c| async move {
            let consumed = s.one_time.consume(c.name(), c.fields.clone(), c.deadline);
            consumed.await
        }),
    ]
}

/// The layout and the worker in the path.
fn leased<T>(call: &Call<T>) -> (&str, &str) {
    let worker = call.path.get(1).map_or("", String::as_str);
    (call.name(), worker)
}

fn workers() -> Vec<R> {
    vec![
        R::json(op::ListWorkers, |s, c| async move {
            s.workers.list(&c.fields, c.deadline).await
        }),
        R::json(op::LeaseWorker, |s, c| async move {
            s.workers.take(c.fields.clone(), c.tenant, c.deadline).await
        }),
        R::json(op::RenewWorker, |s, c| async move {
            let (layout, worker) = leased(&c);
            let renewed = (s.workers).renew(layout, worker, c.fields.clone(), c.deadline);
            renewed.await
        }),
        R::json(op::ReleaseWorker, |s, c| async move {
            let (layout, worker) = leased(&c);
            let released = (s.workers).release(layout, worker, c.fields.clone(), c.deadline);
            released.await
        }),
    ]
}

fn locks() -> Vec<R> {
    vec![
        R::json(op::ListLocks, |s, c| async move {
            let permitted = s.callers.prefixes(c.caller);
            s.locks.list(&c.fields, &permitted, c.deadline).await
        }),
        R::json(op::GetLock, |s, c| async move {
            s.locks.get(c.name(), &c.fields, c.deadline).await
        }),
        R::json(op::AcquireLock, |s, c| async move {
            let (name, fields) = (c.name().to_owned(), c.fields.clone());
            let right = Right::new(&s.callers, c.caller);
            let (tenant, deadline) = (c.tenant, c.deadline);
            // The wait may be long, and the request holds the buffer that it was read into.
            drop(c);
            let held = s.locks.acquire(&name, fields, (&right, tenant), deadline);
            held.await
        }),
        R::json(op::RenewLock, |s, c| async move {
            s.locks.renew(c.name(), c.fields.clone(), c.deadline).await
        }),
        R::json(op::ReleaseLock, |s, c| async move {
            let released = s.locks.release(c.name(), c.fields.clone(), c.deadline);
            released.await
        }),
        R::planned(
            op::BreakLock,
            |s, c| async move { s.locks.plan_break(c.name(), &c.fields, c.deadline).await },
            |s, c| async move { s.locks.break_holds(c.name(), &c.fields, c.deadline).await },
        ),
        R::json(op::VerifyLock, |s, c| async move {
            s.locks.verify(c.name(), c.fields.clone(), c.deadline).await
        }),
    ]
}

fn cluster() -> Vec<R> {
    vec![
        R::json(op::GetCluster, |s, _| async move {
            Ok::<_, ServiceError>(s.cluster.show())
        }),
        R::json(op::GetFacts, |s, c| async move {
            s.facts.gather(&s.cluster, c.deadline).await
        }),
        R::planned(
            op::DrainMember,
            |s, c| async move {
                let (name, drains) = (c.name().to_owned(), true);
                let change = ChangeOfMembers::Drain { name, drains };
                s.cluster.plan(change, c.deadline).await
            },
            |s, c| async move { s.cluster.drain(c.name(), true, c.deadline).await },
        ),
        R::planned(
            op::ResumeMember,
            |s, c| async move {
                let (name, drains) = (c.name().to_owned(), false);
                let change = ChangeOfMembers::Drain { name, drains };
                s.cluster.plan(change, c.deadline).await
            },
            |s, c| async move { s.cluster.drain(c.name(), false, c.deadline).await },
        ),
        R::planned(
            op::ResetWorkers,
            |s, c| async move { s.workers.plan_reset(c.name(), c.deadline).await },
            |s, c| async move { s.workers.reset(c.name(), c.deadline).await },
        ),
        R::planned(
            op::MoveLeader,
            |s, c| async move {
                let to = c.fields.node.clone();
                s.cluster
                    .plan(ChangeOfMembers::MoveLeader { to }, c.deadline)
                    .await
            },
            |s, c| async move { s.cluster.move_leader(c.fields.clone(), c.deadline).await },
        ),
        R::raw(op::GetSnapshot, snapshot::get),
    ]
}

/// A change of one member, with its dry run.
fn member<O>(operation: O, of: fn(&Call<O::Request>) -> ChangeOfMembers) -> R
where
    O: Typed<Request: Send, Response = MemberChange> + Copy + 'static,
{
    R::planned(
        operation,
        move |s, c| async move { s.cluster.plan(of(&c), c.deadline).await },
        move |s, c| async move { s.cluster.change(of(&c), c.deadline).await },
    )
}

fn members() -> Vec<R> {
    vec![
        R::json(op::ListMembers, |s, c| async move {
            s.cluster.members(&c.fields)
        }),
        member(op::AddMemberOp, |c| {
            let AddMember { name, peer, http } = c.fields.clone();
            ChangeOfMembers::Add { name, peer, http }
        }),
        member(op::RemoveMember, |c| ChangeOfMembers::Remove {
            name: c.name().to_owned(),
        }),
        member(op::PromoteMember, |c| ChangeOfMembers::Promote {
            name: c.name().to_owned(),
        }),
        member(op::DemoteMember, |c| ChangeOfMembers::Demote {
            name: c.name().to_owned(),
        }),
        member(op::UpdateMemberOp, |c| {
            let (name, fields) = (c.name().to_owned(), c.fields.clone());
            let UpdateMember { peer, http } = fields;
            ChangeOfMembers::Update { name, peer, http }
        }),
    ]
}

fn access() -> Vec<R> {
    vec![
        R::json(op::ListAccess, |s, c| async move {
            s.access.list(&c.fields, c.deadline).await
        }),
        R::planned(
            op::CreateAccessOp,
            |s, c| async move { s.access.plan_create(c.fields.clone(), c.deadline).await },
            |s, c| async move { s.access.create(c.fields.clone(), c.deadline).await },
        ),
        R::planned(
            op::RevokeAccess,
            |s, c| async move { s.access.plan_revoke(c.name(), c.deadline).await },
            |s, c| async move { s.access.revoke(c.name(), c.deadline).await },
        ),
    ]
}

fn this_node() -> Vec<R> {
    vec![
        R::raw(op::GetConfig, node::config),
        R::raw(op::GetLive, node::livez),
        R::raw(op::GetReady, node::readyz),
        R::raw(op::GetMetrics, node::metrics),
        R::raw(op::GetVersion, node::version),
        R::raw(op::GetProblem, node::problem),
        R::raw(op::GetOpenApi, pages::openapi),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqd_api::OPERATIONS;

    use super::*;

    #[test]
    fn every_operation_of_the_table_is_served() {
        let served: BTreeSet<&str> = table().iter().map(|route| route.operation.id).collect();
        let declared: BTreeSet<&str> = OPERATIONS.iter().map(|row| row.id).collect();
        assert_eq!(served, declared);
    }
}
