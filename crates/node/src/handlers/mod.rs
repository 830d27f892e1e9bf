//! The HTTP adapter of the services. [`table`] connects each operation with its service; the other
//! files contain operations whose requests or responses have a form of their own. This module makes
//! no decisions.

mod compat;
mod costly;
#[cfg(test)]
mod example;
mod ids;
mod keyed;
mod layouts;
mod node;
mod pages;
mod routes;
mod sequences;
mod snapshot;
mod table;
mod uuids;

pub(crate) use routes::Router;

use seqd_api::{ErrorCode, Operation, Problem};

use crate::http::Request;

/// Decodes the request of a path that returns one value and so refuses a field of the request
/// type. A request with this field gets the path that takes it, `other`, as a hint.
fn decode_one<T: seqd_api::Request>(
    request: &Request,
    operation: &Operation,
    other: &str,
) -> Result<T, Problem> {
    let is_known = |field: &&&str| operation.refused_field != Some(**field);
    let known: Vec<&str> = T::FIELDS.iter().filter(is_known).copied().collect();
    request.decode_known(&known).map_err(|problem| {
        let of_field = |field: &&str| problem.detail.ends_with(&format!("{field:?}"));
        match operation.refused_field.filter(of_field) {
            Some(field) if problem.is(ErrorCode::UnknownField) => {
                problem.with_hint(format!("{other} takes a {field}"))
            }
            _ => problem,
        }
    })
}
