//! `seqd leader`: shows and moves the leadership.

use clap::Subcommand;
use seqd_client::api::{ErrorCode, LeaderMove, exit};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on the leader.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaderCommand {
    /// Show the leader
    Show,
    /// Transfer leadership to another voter
    Move {
        /// Name of the voter; by default any voter except the leader
        node: Option<String>,
    },
}

pub(crate) async fn run(command: LeaderCommand, session: &Session) -> Result<u8, Failure> {
    let (leader, term) = match command {
        LeaderCommand::Show => {
            let cluster = session.client.cluster_of_member().await?;
            let Some(leader) = cluster.leader else {
                let detail = format!("{} reports that the cluster has no leader", cluster.node);
                return Err(Failure::of(
                    exit::UNAVAILABLE,
                    ErrorCode::NoQuorum.as_str(),
                    detail,
                ));
            };
            (leader, cluster.term)
        }
        LeaderCommand::Move { node } => {
            let request = LeaderMove { node };
            if let Some(trial) = session.trial() {
                return session.print_plan(&trial.move_leader(&request).await?);
            }
            let moved = session.client.move_leader(&request).await?;
            (moved.leader, moved.term)
        }
    };
    let mut report = Report::new(&json!({ "leader": leader, "term": term }))?
        .with_columns("leader term")
        .with_people(format!("{leader}\n"));
    report.row(vec![leader, term.to_string()]);
    session.print(&report)
}
