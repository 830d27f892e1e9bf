//! `seqd drain` and `seqd resume`: take a node out of its balancers before maintenance, and back.

use clap::Args;

use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The options of both commands.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Name of the node; by default the node that answers
    node: Option<String>,
}

pub(crate) async fn run(args: DrainArgs, drains: bool, session: &Session) -> Result<u8, Failure> {
    let name = match args.node {
        Some(name) => name,
        None => session.client.cluster().await?.node,
    };
    if let Some(trial) = session.trial() {
        let plan = match drains {
            true => trial.drain_member(&name).await?,
            false => trial.resume_member(&name).await?,
        };
        return session.print_plan(&plan);
    }
    let member = match drains {
        true => session.client.drain_member(&name).await?,
        false => session.client.resume_member(&name).await?,
    };
    let state = match member.draining {
        true => "draining: it serves requests until it stops",
        false => "not draining",
    };
    let leads = match &member.leader {
        Some(leader) if *leader == name && member.draining => {
            "; it leads until another voter can lead".to_owned()
        }
        Some(leader) => format!("; {leader} leads"),
        None => "; an election is in progress".to_owned(),
    };
    let people = format!("{name} is {state}{leads}\n");
    let columns = "name draining role leader";
    let mut report = Report::new(&member)?
        .with_columns(columns)
        .with_people(people);
    report.row(vec![
        member.name,
        member.draining.to_string(),
        member.role.as_str().to_owned(),
        or_dash(member.leader),
    ]);
    session.print(&report)
}
