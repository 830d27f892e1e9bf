//! The description of each operation lists every error code of its responses.

use seqd_api::{OPERATIONS, Operation};

/// Returns an error if the description of the operation of this request lacks the code. Requests
/// that are no operation, and methods that a path refuses, pass.
pub(crate) fn check(method: &str, target: &str, code: &str) -> Result<(), String> {
    let path = target.split('?').next().unwrap_or_default();
    let Some(row) = OPERATIONS.iter().find(|row| serves(row, method, path)) else {
        return Ok(());
    };
    let codes = row.codes();
    if codes.iter().any(|known| known.as_str() == code) {
        return Ok(());
    }
    let id = row.id;
    Err(format!("{id}: its description does not list {code}"))
}

fn serves(row: &Operation, method: &str, path: &str) -> bool {
    let is_method = row.method.as_str() == method || row.allocates && method == "POST";
    let (mut parts, mut given) = (row.path.split('/'), path.split('/'));
    let mut fits = |part: &str| {
        let given = given.next();
        part.starts_with('{') && given.is_some_and(|given| !given.is_empty()) || given == Some(part)
    };
    is_method && parts.all(&mut fits) && given.next().is_none()
}

#[test]
fn a_code_that_an_operation_does_not_list_is_found() {
    let path = "/v1/locks/night/acquire?owner=a";
    assert_eq!(check("POST", path, "lock-held"), Ok(()));
    assert!(check("POST", path, "token-used").is_err());
    assert!(check("POST", "/v1/id", "token-used").is_err());
    assert_eq!(check("GET", path, "method-not-allowed"), Ok(()));
    assert_eq!(check("GET", "/v1/nothing", "not-found"), Ok(()));
}
