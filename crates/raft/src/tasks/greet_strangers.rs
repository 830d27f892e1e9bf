//! A restored cluster repeatedly sends a hello to the configured addresses that do not belong to
//! its members, so that a node of its ancestor that runs there stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::next_beat;
use crate::context::{ClusterView, NodeContext};
use crate::handshake::hello::{self, HELLO_LIMIT};
use crate::replica::Replica;

/// Time between two rounds.
const GREET_EVERY: Duration = Duration::from_secs(2);

pub(crate) async fn run(context: Arc<NodeContext>, replica: Arc<Replica>) {
    while !context.is_stopped() {
        next_beat(&context, GREET_EVERY).await;
        if context.with_identity(|own| own.ancestors.is_empty()) != Some(false) {
            continue;
        }
        let members: BTreeSet<String> = replica
            .members()
            .into_values()
            .map(|member| member.peer)
            .collect();
        let mut strangers = hello::peer_list(&context);
        strangers.retain(|name, addr| *name != context.settings.name && !members.contains(addr));
        // A node that must stop because of the hello stops itself; a running node does not need the
        // answers.
        hello::hello_each(&context, strangers, HELLO_LIMIT).await;
    }
}
