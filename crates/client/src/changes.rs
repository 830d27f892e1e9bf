//! The requests that change something, each made in one place: [`Client`](crate::Client) sends them
//! as they are, and [`DryRun`](crate::DryRun) with the one key more that has them only checked.

use reqwest::Method;
use reqwest::header::{HeaderValue, IF_MATCH};
use seqd_api::{
    AddMember, AdvanceRequest, BreakLockRequest, CreateAccess, CreateLayout, KeysQuery, LeaderMove,
    NoFields, SequenceSpec, TokensQuery, paths,
};

use crate::client::Call;
use crate::error::Error;

pub(crate) fn create_sequence(name: &str, spec: &SequenceSpec) -> Result<Call, Error> {
    let path = paths::fill(paths::SEQUENCE, name);
    Call::change(Method::PUT, path).body(spec)
}

pub(crate) fn update_sequence(
    name: &str,
    change: &SequenceSpec,
    revision: Option<u64>,
) -> Result<Call, Error> {
    let path = paths::fill(paths::SEQUENCE, name);
    let call = Call::change(Method::PATCH, path).body(change)?;
    let Some(revision) = revision else {
        return Ok(call);
    };
    let tag = HeaderValue::try_from(format!("\"{revision}\"")).map_err(Error::setup)?;
    Ok(call.header(IF_MATCH, tag))
}

pub(crate) fn delete_sequence(name: &str) -> Call {
    Call::change(Method::DELETE, paths::fill(paths::SEQUENCE, name))
}

pub(crate) fn advance(name: &str, request: &AdvanceRequest) -> Result<Call, Error> {
    let path = paths::fill(paths::SEQUENCE_ADVANCE, name);
    Call::change(Method::POST, path).body(request)
}

pub(crate) fn add_member(request: &AddMember) -> Result<Call, Error> {
    Call::change(Method::POST, paths::MEMBERS).body(request)
}

pub(crate) fn promote_member(name: &str) -> Result<Call, Error> {
    let path = paths::fill(paths::MEMBER_PROMOTE, name);
    Call::change(Method::POST, path).body(&NoFields {})
}

pub(crate) fn reset_workers(name: &str) -> Result<Call, Error> {
    let path = paths::fill(paths::MEMBER_RESET_WORKERS, name);
    Call::change(Method::POST, path).body(&NoFields {})
}

pub(crate) fn remove_member(name: &str) -> Call {
    Call::change(Method::DELETE, paths::fill(paths::MEMBER, name))
}

pub(crate) fn move_leader(request: &LeaderMove) -> Result<Call, Error> {
    Call::change(Method::POST, paths::LEADER).body(request)
}

pub(crate) fn create_token(request: &CreateAccess) -> Result<Call, Error> {
    Call::change(Method::POST, paths::ACCESS).body(request)
}

pub(crate) fn revoke_token(id: &str) -> Call {
    Call::change(Method::DELETE, paths::fill(paths::ACCESS_TOKEN, id))
}

pub(crate) fn break_lock(name: &str, request: &BreakLockRequest) -> Result<Call, Error> {
    Call::change(Method::POST, paths::fill(paths::LOCK_BREAK, name)).body(request)
}

pub(crate) fn delete_key(key: &str) -> Call {
    Call::change(Method::DELETE, paths::fill(paths::KEY, key))
}

pub(crate) fn delete_keys(query: &KeysQuery) -> Result<Call, Error> {
    Call::change(Method::DELETE, paths::KEYS).query(query)
}

pub(crate) fn delete_one_time(id: &str) -> Call {
    Call::change(Method::DELETE, paths::fill(paths::ONE_TIME_TOKEN, id))
}

pub(crate) fn delete_all_one_time(query: &TokensQuery) -> Result<Call, Error> {
    Call::change(Method::DELETE, paths::ONE_TIME).query(query)
}

pub(crate) fn create_layout(request: &CreateLayout) -> Result<Call, Error> {
    Call::change(Method::POST, paths::LAYOUTS).body(request)
}
