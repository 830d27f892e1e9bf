//! The body that names a hold of a lock, from the answer to its acquisition.

use serde_json::{Value, json};

/// Returns the body of a release: the secret `lease` if the answer has one, else `owner` and
/// `token`, which builds use that have no leases of locks.
pub(crate) fn hold_of(acquired: &Value) -> Value {
    match acquired.get("lease") {
        Some(lease) => json!({"lease": lease}),
        None => json!({"owner": acquired["owner"], "token": acquired["token"]}),
    }
}
