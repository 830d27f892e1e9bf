//! Callers with access tokens, and clusters that require them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::{self, Reply};

/// The operator's token, which permits everything.
pub const OPERATOR: &str = "operator-0123456789abcdef0123456789abcdef";

/// Configures the planned nodes to require a token from every caller. Returns the file with the
/// operator's token.
pub fn require_tokens(cluster: &mut Cluster) -> PathBuf {
    let file = cluster.folder().join("token");
    std::fs::write(&file, format!("{OPERATOR}\n")).expect("the token's file");
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
    let shown = format!("{:?}", file.display().to_string());
    for index in 0..cluster.size() {
        let node = cluster.node_mut(index);
        node.set("auth", "enabled", "true");
        node.set("auth", "bootstrap_token_file", &shown);
    }
    file
}

/// Starts the planned nodes with required tokens and waits until they are ready. Returns the
/// cluster and the file with the operator's token.
pub fn guarded(mut cluster: Cluster) -> (Cluster, PathBuf) {
    let file = require_tokens(&mut cluster);
    (cluster.ready(), file)
}

#[derive(Debug)]
pub struct Caller<'a> {
    cluster: &'a Cluster,
    pub token: String,
}

impl<'a> Caller<'a> {
    pub fn operator(cluster: &'a Cluster) -> Self {
        Self::of(cluster, OPERATOR)
    }

    pub fn of(cluster: &'a Cluster, token: &str) -> Self {
        let token = token.to_owned();
        Self { cluster, token }
    }

    /// Creates a token with these permissions. Returns a caller with the token, and the token's ID.
    pub fn with(cluster: &'a Cluster, request: &Value) -> (Self, String) {
        let made = Self::operator(cluster)
            .post("/v1/access", request)
            .ok()
            .json();
        let text = |name: &str| made[name].as_str().expect("a text").to_owned();
        (Self::of(cluster, &text("token")), text("id"))
    }

    pub fn send(&self, method: &str, node: usize, path: &str, body: Option<&Value>) -> Reply {
        let request = http::request(method, &self.cluster.url(node, path));
        let request = request.header("authorization", &format!("Bearer {}", self.token));
        match body {
            Some(body) => request.json(body).reply(),
            None => request.reply(),
        }
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", 0, path, None)
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", 0, path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", 0, path, Some(body))
    }

    pub fn create_sequence(&self, name: &str) {
        let path = format!("/v1/sequences/{name}");
        self.send("PUT", 0, &path, Some(&json!({"mode": "strict"})))
            .ok();
    }
}
