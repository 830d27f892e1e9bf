//! `seqd member`: the members of the cluster.

mod replace;
mod replacement;
mod wait;

use clap::{Args, Subcommand};
use seqd_client::Error;
use seqd_client::api::{AddMember, MemberChange, Role, UpdateMember, validate_name};
use tokio::time::Instant;

use self::wait::{Goal, LIMIT, repeat, until};
use crate::display::or_dash;
use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// The operations on members.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// List all members
    List,
    /// Add a node as a learner
    Add {
        /// Name of the node
        name: String,
        /// Address for other nodes, HOST:7401
        #[arg(value_name = "HOST:PORT")]
        peer: String,
        /// URL for clients, http://HOST:7400
        #[arg(long, value_name = "URL")]
        http: Option<String>,
        /// Wait until the node is ready, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Change the recorded addresses of a member; its configuration replaces them at its next start
    Update(UpdateArgs),
    /// Make a learner a voter
    Promote {
        /// Name of the learner
        name: String,
        /// Wait until the node is a voter, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Make a voter a learner; a leader transfers leadership first
    Demote {
        /// Name of the voter
        name: String,
        /// Wait until the node is a learner, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Remove a member permanently; a leader transfers leadership first
    Remove {
        /// Name of the member
        name: String,
        /// Wait until the member is removed, at most 2 minutes
        #[arg(long)]
        wait: bool,
    },
    /// Replace a voter by a new node: add it, wait until it is ready, promote it, and remove the
    /// old one. Repeat an interrupted command with the same arguments: it continues
    Replace(ReplaceArgs),
}

/// The options of `member update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Name of the member
    name: String,
    #[command(flatten)]
    addresses: Addresses,
    /// Wait until the addresses are recorded and the member answers, at most 2 minutes
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Addresses {
    /// New URL for clients, http://HOST:7400
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// New address for other nodes, HOST:7401; the member must answer there
    #[arg(long, value_name = "HOST:PORT")]
    peer: Option<String>,
}

/// The options of `member replace`.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Name of the voter to remove
    old: String,
    /// Name of the new node
    new: String,
    /// Address of the new node for other nodes, HOST:7401
    #[arg(value_name = "HOST:PORT")]
    peer: String,
    /// URL of the new node for clients, http://HOST:7400
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Accepted for uniformity: the command always waits
    #[arg(long)]
    wait: bool,
}

pub(crate) async fn run(command: MemberCommand, session: &Session) -> Result<u8, Failure> {
    match command {
        MemberCommand::List => list(session).await,
        MemberCommand::Add {
            name,
            peer,
            http,
            wait,
        } => {
            validate_name(&name).map_err(|error| Failure::usage(error.to_string()))?;
            let request = AddMember { name, peer, http };
            if let Some(trial) = session.trial() {
                return session.print_plan(&trial.add_member(&request).await?);
            }
            let goal = wait.then_some(Goal::Ready);
            let send = async || session.client.add_member(&request).await;
            let code = change(send, goal, session).await?;
            let name = &request.name;
            session.note(&format!(
                "next: seqd member promote {name} --wait makes {name} a voter"
            ));
            Ok(code)
        }
        MemberCommand::Update(args) => update(args, session).await,
        MemberCommand::Promote { name, wait } => {
            if let Some(trial) = session.trial() {
                return session.print_plan(&trial.promote_member(&name).await?);
            }
            let send = async || session.client.promote_member(&name).await;
            change(send, wait.then_some(Goal::Votes), session).await
        }
        MemberCommand::Demote { name, wait } => {
            let plan = session.client.dry_run().demote_member(&name).await?;
            if let Some(code) = session.agreed(&plan)? {
                return Ok(code);
            }
            let send = async || session.client.demote_member(&name).await;
            change(send, wait.then_some(Goal::Learns), session).await
        }
        MemberCommand::Remove { name, wait } => {
            let plan = session.client.dry_run().remove_member(&name).await?;
            if let Some(code) = session.agreed(&plan)? {
                return Ok(code);
            }
            let send = async || session.client.remove_member(&name).await;
            change(send, wait.then_some(Goal::Gone), session).await
        }
        MemberCommand::Replace(args) => replace::run(args, session).await,
    }
}

/// A change of addresses loses nothing, so the command prints its effect and asks no question.
async fn update(args: UpdateArgs, session: &Session) -> Result<u8, Failure> {
    let UpdateArgs {
        name,
        addresses: Addresses { http, peer },
        wait,
    } = args;
    let request = UpdateMember { peer, http };
    let trial = session.client.dry_run();
    let plan = trial.update_member(&name, &request).await?;
    if session.is_dry_run {
        return session.print_plan(&plan);
    }
    session.note(&plan.effect);
    let goal = wait.then_some(Goal::Addresses(request.clone()));
    let send = async || session.client.update_member(&name, &request).await;
    change(send, goal, session).await
}

async fn list(session: &Session) -> Result<u8, Failure> {
    let cluster = session.client.cluster_of_member().await?;
    let columns = "name id role state peer http applied lag version";
    let mut report = Report::list(&cluster.members)?.with_columns(columns);
    for member in cluster.members {
        report.row(vec![
            member.name,
            member.id.to_string(),
            member.role.as_str().to_owned(),
            member.state.as_str().to_owned(),
            member.peer,
            or_dash(member.http),
            or_dash(member.applied),
            or_dash(member.lag_entries),
            or_dash(member.version),
        ]);
    }
    session.print(&report)
}

/// Sends the change and prints it. With `--wait`, repeats the request while it can succeed later,
/// and polls the cluster until the change is complete.
async fn change(
    send: impl AsyncFn() -> Result<MemberChange, Error>,
    goal: Option<Goal>,
    session: &Session,
) -> Result<u8, Failure> {
    let Some(goal) = goal else {
        return print(&send().await?, "", session);
    };
    let begun = Instant::now();
    let mut change = repeat(send, session).await?;
    let rest = LIMIT.saturating_sub(begun.elapsed());
    if let Some(cluster) = until(&change.name, &goal, rest, session).await? {
        change.quorum = cluster.quorum;
    }
    print(&change, "", session)
}

/// Prints a member after a change; `note` follows its role.
fn print(change: &MemberChange, note: &str, session: &Session) -> Result<u8, Failure> {
    let role = change.role.map_or("removed", Role::as_str);
    let people = format!(
        "{} {role}{note}, quorum of {} voters\n",
        change.name, change.quorum.voters
    );
    let mut report = Report::new(change)?
        .with_columns("name id role voters can_lose")
        .with_people(people);
    report.row(vec![
        change.name.clone(),
        change.id.to_string(),
        role.to_owned(),
        change.quorum.voters.to_string(),
        change.quorum.can_lose.to_string(),
    ]);
    session.print(&report)
}
