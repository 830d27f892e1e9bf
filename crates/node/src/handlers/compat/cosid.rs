//! The proxy of CosId: machine numbers, segments and IDs.
//!
//! A machine number is held as [`MachinePool`] describes. A segment is the next values of the
//! strict sequence `cosid.NAMESPACE.NAME`, because CosId's chain of segments must ascend over all
//! nodes.

use std::sync::Arc;

use axum::http::Method;
use jiff::SignedDuration;
use seqd_api::{ErrorCode, Mode, NextRequest, Problem, SequenceSpec, Typed as _, op};
use seqd_state::MAX_LOCK_OWNER_BYTES;
use serde_json::json;

use super::{JSON, mint, response, spring};
use crate::http::{Foreign, Response};
use crate::problems::invalid;
use crate::services::{HOLD_MS, MachinePool, ServiceError, Services, sequence_name};

/// An error in the form of CosId.
enum Refused {
    Overflow { total: u64 },
    NotFound,
    Lost,
    Other(Problem),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

/// An instance of an application, as a request names it.
struct Instance {
    id: String,
    is_stable: bool,
}

impl Instance {
    fn of(from: &Foreign) -> Result<Instance, Problem> {
        let id = match (
            from.field("instanceId"),
            from.field("host"),
            from.field("port"),
        ) {
            (Some(id), ..) if !id.is_empty() => id.into_owned(),
            (_, Some(host), Some(port)) => format!("{host}:{port}"),
            _ => return Err(invalid("instanceId can not be null!")),
        };
        if id.len() > MAX_LOCK_OWNER_BYTES {
            let length = id.len();
            let detail =
                format!("an instance has at most {MAX_LOCK_OWNER_BYTES} bytes, not {length}");
            return Err(invalid(detail));
        }
        let is_stable = from.field("stable").as_deref() == Some("true");
        Ok(Instance { id, is_stable })
    }

    /// The age of another instance's last guard after which this instance may take its number. A
    /// stable instance takes no number that is held.
    fn stale_ms(&self, from: &Foreign) -> Result<u64, Problem> {
        let text = from.field("safeGuardDuration").unwrap_or_default();
        let is_iso = text.starts_with(['P', 'p']);
        let duration = text.parse::<SignedDuration>().ok().filter(|_| is_iso);
        let duration = duration.ok_or_else(|| {
            invalid(format!(
                "safeGuardDuration is an ISO 8601 duration, not {text:?}"
            ))
        })?;
        match u64::try_from(duration.as_millis()) {
            Ok(ms) if ms <= HOLD_MS && self.is_stable => Ok(HOLD_MS),
            Ok(ms) if ms <= HOLD_MS => Ok(ms),
            _ => Err(invalid(format!(
                "safeGuardDuration is at most PT24H, not {text}: enable cosid.machine.guarder, \
                 which extends the hold"
            ))),
        }
    }
}

pub(super) async fn machines(node: Arc<Services>, from: Foreign) -> Response {
    let done = match from.method {
        Method::POST => distribute(&node, &from).await,
        Method::PATCH => guard(&node, &from).await,
        Method::DELETE => revert(&node, &from).await,
        _ => return spring::method_not_allowed(&node, &from),
    };
    match done {
        Ok(body) => response(200, JSON, body),
        Err(refused) => error(&from, refused),
    }
}

async fn distribute(node: &Services, from: &Foreign) -> Result<String, Refused> {
    let (instance, bits) = (Instance::of(from)?, number(from, "machineBit")?);
    let stale_ms = instance.stale_ms(from)?;
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    let prefix = MachinePool::prefix(from.param());
    let taken = from.serve(op::AcquireLock::ROW, &prefix, async |admitted| {
        let (pool, by) = (
            MachinePool::new(from.param())?,
            (&admitted.right, admitted.tenant),
        );
        let asked = (instance.id.as_str(), bits, stale_ms);
        let taken = node.locks.take_machine(&pool, asked, by, admitted.deadline);
        let Some(machine) = taken.await? else {
            return Ok::<_, ServiceError>(None);
        };
        // Read after the grant: the earlier holder of the number used it before.
        Ok(Some((machine, node.workers.latest_time()?.0)))
    });
    let Some((machine, since)) = taken.await? else {
        return Err(Refused::Overflow { total: 1 << bits });
    };
    Ok(format!(
        r#"{{"machineId":{machine},"lastTimeStamp":{since}}}"#
    ))
}

async fn guard(node: &Services, from: &Foreign) -> Result<String, Refused> {
    let instance = Instance::of(from)?;
    instance.stale_ms(from)?;
    let prefix = MachinePool::prefix(from.param());
    let guarded = from.serve(op::RenewLock::ROW, &prefix, async |admitted| {
        let pool = MachinePool::new(from.param())?;
        let by = (admitted.tenant, admitted.deadline);
        node.locks.guard_machine(&pool, &instance.id, by).await
    });
    match guarded.await? {
        Some(true) => Ok(String::new()),
        Some(false) => Err(Refused::Lost),
        None => Err(Refused::NotFound),
    }
}

async fn revert(node: &Services, from: &Foreign) -> Result<String, Refused> {
    let instance = Instance::of(from)?;
    let prefix = MachinePool::prefix(from.param());
    let reverted = from.serve(op::ReleaseLock::ROW, &prefix, async |admitted| {
        let pool = MachinePool::new(from.param())?;
        let by = (admitted.tenant, admitted.deadline);
        if instance.is_stable {
            // It keeps its number while it is down.
            let kept = node.locks.guard_machine(&pool, &instance.id, by).await?;
            return Ok(kept.unwrap_or(false));
        }
        node.locks.revert_machine(&pool, &instance.id, by).await
    });
    if reverted.await? {
        return Ok(String::new());
    }
    Err(Refused::NotFound)
}

/// A parameter that is a number.
fn number(from: &Foreign, name: &str) -> Result<i64, Problem> {
    let text = from.field(name).unwrap_or_default();
    let parsed = text.parse();
    parsed.map_err(|_| invalid(format!("{name} is a number, not {text:?}")))
}

fn error(from: &Foreign, refused: Refused) -> Response {
    let instance = Instance::of(from).map(|Instance { id, is_stable }| {
        format!("InstanceId{{instanceId={id}, stable={is_stable}}}")
    });
    let (instance, namespace) = (instance.unwrap_or_default(), from.param());
    let (status, code, message) = match refused {
        Refused::Overflow { total } => {
            let failed = "distribution failed - totalMachineIds";
            let message = format!("InstanceId:[{instance}] - {failed}:[{total}]");
            (400, "M-01", message)
        }
        Refused::NotFound => {
            let message =
                format!("Not found the MachineState of instance[{instance}]@[{namespace}]!");
            (400, "M-02", message)
        }
        Refused::Lost => {
            let bound = format!("bound to the instance[{instance}]@[{namespace}]");
            let message = format!("The machine id {bound} has been lost!.");
            (400, "M-03", message)
        }
        Refused::Other(problem) => {
            let message = format!("{}: {}", problem.code, problem.detail);
            match problem.status {
                400 => (400, "400", message),
                _ => (500, "500", message),
            }
        }
    };
    let message = json!(message);
    let body = format!(r#"{{"code":"{code}","msg":{message},"errors":[]}}"#);
    response(status, JSON, body)
}

/// The sequence of a segment distributor.
fn sequence(from: &Foreign) -> String {
    format!("cosid.{}", from.params.join("."))
}

/// Creates the sequence of a distributor, unless it exists. The first value is above the offset.
pub(super) async fn create_distributor(node: Arc<Services>, from: Foreign) -> Response {
    if from.method != Method::POST {
        return spring::method_not_allowed(&node, &from);
    }
    match created(&node, &from).await {
        Ok(()) => response(200, JSON, ""),
        Err(refused) => error(&from, refused.into()),
    }
}

async fn created(node: &Services, from: &Foreign) -> Result<(), Problem> {
    let offset = number(from, "offset")?;
    let name = sequence(from);
    let known = from.serve(op::NextValues::ROW, &name, async |admitted| {
        node.sequences
            .get(&sequence_name(&name)?, false, admitted.deadline)
            .await
    });
    match known.await {
        Ok(_) => return Ok(()),
        Err(problem) if problem.is(ErrorCode::NotFound) => {}
        Err(problem) => return Err(problem),
    }
    // A deleted sequence keeps its definition, which may have another offset.
    let start = offset.saturating_add(1);
    let created = from.serve(op::PutSequence::ROW, &name, async |admitted| {
        let spec = SequenceSpec {
            mode: Some(Mode::Strict),
            start: Some(start),
            description: Some("segments of CosId".to_owned()),
            ..SequenceSpec::default()
        };
        let (name, by) = (sequence_name(&name)?, (admitted.tenant, admitted.deadline));
        let created = node
            .sequences
            .create_or_revive(&name, (spec, Some(start)), by);
        created.await
    });
    match created.await {
        // Another instance has created the sequence meanwhile.
        Err(problem) if !problem.is(ErrorCode::AlreadyExists) => Err(problem),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Takes the next `step` values and returns the last one.
pub(super) async fn next_max_id(node: Arc<Services>, from: Foreign) -> Response {
    if from.method != Method::PATCH {
        return spring::method_not_allowed(&node, &from);
    }
    let name = sequence(&from);
    let step = number(&from, "step").and_then(|step| {
        u64::try_from(step).map_err(|_| invalid(format!("step is positive, not {step}")))
    });
    let step = match step {
        Ok(step) => step,
        Err(problem) => return error(&from, problem.into()),
    };
    let taken = from.serve(op::NextValues::ROW, &name, async |admitted| {
        let request = NextRequest {
            count: Some(step),
            contiguous: Some(true),
            ..NextRequest::default()
        };
        let name = sequence_name(&name)?;
        let next = (node.sequences).next(&name, &request, false, admitted.deadline);
        let next = next.await?;
        match next.last.filter(|_| next.increment == 1) {
            Some(last) => Ok(last),
            None => Err(invalid(format!("{name} has another increment than 1"))),
        }
    });
    match taken.await {
        Ok(last) => response(200, JSON, last.to_string()),
        Err(problem) => error(&from, problem.into()),
    }
}

/// An ID as a JSON number.
pub(super) async fn id(node: Arc<Services>, from: Foreign) -> Response {
    id_with(node, from, |_, id| response(200, JSON, id)).await
}

/// An ID as text.
pub(super) async fn id_as_string(node: Arc<Services>, from: Foreign) -> Response {
    id_with(node, from, spring::text).await
}

async fn id_with(
    node: Arc<Services>,
    from: Foreign,
    write: fn(&Foreign, String) -> Response,
) -> Response {
    if from.method != Method::GET {
        return spring::method_not_allowed(&node, &from);
    }
    match mint(&node, &from, 1).await {
        Ok(minted) => {
            let id = minted.ids().next().unwrap_or_default();
            write(&from, id.to_string())
        }
        Err(problem) => error(&from, problem.into()),
    }
}
