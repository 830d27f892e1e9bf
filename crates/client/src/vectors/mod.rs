//! Writes `clients/vectors.json`, which the libraries in other languages run: the decisions of this
//! crate for fixed inputs. `SEQD_WRITE_GOLDEN=1` writes the file. Without it, the test compares.
//!
//! Layouts and operations come from their tables, and the retry decisions from a client and stubs.
//! The scripts of leases and locks are in `generator` and `hold`.

mod layouts;
mod retries;

use std::path::PathBuf;

use seqd_api::{OPERATIONS, Repeat};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The format version, raised by a change of the file that a reader of the previous format would
/// misread.
const FORMAT: u32 = 1;

#[test]
fn the_vectors_of_the_client_libraries_are_what_this_crate_decides() {
    let paused = paused();
    let vectors = json!({
        "format": FORMAT,
        "operations": operations(),
        "layouts": layouts::layouts(),
        "leases": paused.block_on(crate::generator::vectors::scripts()),
        "locks": paused.block_on(crate::hold::vectors::scripts()),
        "retries": Runtime::new().unwrap().block_on(retries::cases()),
    });
    let text = written(&vectors);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients/vectors.json");
    if std::env::var_os("SEQD_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == text,
        "clients/vectors.json differs: SEQD_WRITE_GOLDEN=1 cargo test -p seqd-client vectors \
         writes it"
    );
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// One element of each list per line, so that a difference shows what changed.
fn written(vectors: &Value) -> String {
    let mut text = "{\n".to_owned();
    let members = vectors.as_object().unwrap();
    for (at, (name, value)) in members.iter().enumerate() {
        let comma = if at + 1 == members.len() { "" } else { "," };
        let value = match value.as_array() {
            None => value.to_string(),
            Some(list) => {
                let lines: Vec<_> = list.iter().map(|one| format!("  {one}")).collect();
                format!("[\n{}\n ]", lines.join(",\n"))
            }
        };
        text += &format!(" {}: {value}{comma}\n", json!(name));
    }
    text + "}\n"
}

fn operations() -> Vec<Value> {
    let row = |row: &&seqd_api::Operation| {
        let repeat = match row.repeat {
            Repeat::Harmless => "harmless",
            Repeat::WithNonce => "with-nonce",
            Repeat::Never => "never",
        };
        json!({
            "id": row.id,
            "method": row.method.as_str(),
            "path": row.path,
            "repeat": repeat,
            "waits": row.waits,
        })
    };
    OPERATIONS.iter().map(row).collect()
}
