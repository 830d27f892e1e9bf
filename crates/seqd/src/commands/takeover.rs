//! A new cluster of one node that takes the place of another: from a snapshot, or from the data of
//! one node after the majority was lost. The consequences are printed before anything is written.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use seqd_client::api::address::{HTTP_PORT, base_url, check_host_port, is_node_url};
use seqd_client::api::{exit, validate_name};
use seqd_offline::{
    Member, OfflineError, Recovery, RecoveryOptions, Restore, RestoreOptions, SequenceTakeover,
    Takeover, TakeoverOptions,
};

use crate::arguments;
use crate::display::{self, or_dash};
use crate::failure::Failure;
use crate::output::Report;
use crate::private::{self, Owner};
use crate::session::Session;

/// The options of `snapshot restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Snapshot file
    file: PathBuf,
    /// Data folder of the new node: empty, or not existing yet
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Name of the new node
    #[arg(long)]
    name: String,
    /// Address of the new node for other nodes, HOST:7401
    #[arg(long, value_name = "HOST:PORT")]
    peer: String,
    /// URL of the new node for clients [default: the host of --peer, with the scheme of the
    /// snapshot's members]
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    #[command(flatten)]
    takeover: TakeoverArgs,
}

/// The options of `data recover-quorum`.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Data folder of the stopped node; its current contents are set aside inside it
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// New name of the node; unchanged by default
    #[arg(long)]
    name: Option<String>,
    /// New address for other nodes, HOST:7401; unchanged by default
    #[arg(long, value_name = "HOST:PORT")]
    peer: Option<String>,
    /// New URL for clients; unchanged by default
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    #[command(flatten)]
    takeover: TakeoverArgs,
}

/// The options that both commands have.
#[derive(Debug, Args)]
struct TakeoverArgs {
    /// First value of a sequence that was certainly never granted; repeatable
    #[arg(long = "floor", value_name = "NAME=VALUE", value_parser = floor)]
    floors: Vec<(String, i64)>,
    /// Values to skip in every sequence without a floor; this is not a guarantee. 0 states that no
    /// value was granted since
    #[arg(long, value_name = "COUNT", value_parser = arguments::number)]
    margin: Option<u64>,
    /// Time at which the state was written, in RFC 3339, if the recorded time is wrong because a
    /// leader's clock was ahead; not later than the recorded time
    #[arg(long, value_name = "TIME")]
    written: Option<jiff::Timestamp>,
    /// This is a rehearsal: the nodes of the old cluster keep running
    #[arg(long)]
    drill: bool,
}

impl TakeoverArgs {
    fn options(self) -> TakeoverOptions {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        TakeoverOptions {
            floors: self.floors,
            margin: self.margin,
            written_ms: self
                .written
                .map(|time| u64::try_from(time.as_millisecond()).unwrap_or(0)),
            drill: self.drill,
            now_ms: u64::try_from(now_ms).unwrap_or(0),
        }
    }
}

fn floor(text: &str) -> Result<(String, i64), String> {
    let (name, value) = text
        .rsplit_once('=')
        .ok_or("a floor must have the form NAME=VALUE")?;
    let value = value
        .parse()
        .map_err(|_| format!("{value:?} is not a sequence value"))?;
    Ok((name.to_owned(), value))
}

pub(crate) fn restore(args: RestoreArgs, session: &Session) -> Result<u8, Failure> {
    let RestoreArgs {
        file,
        data_dir,
        name,
        peer,
        http,
        takeover,
    } = args;
    let host = check(Some(&name), Some(&peer), http.as_deref())?;
    let is_http_given = http.is_some();
    let http = http.unwrap_or_else(|| base_url(format_args!("{host}:{HTTP_PORT}")));
    let restore = Restore::plan(RestoreOptions {
        file: file.clone(),
        data_dir: data_dir.clone(),
        member: Member { name, peer, http },
        is_http_given,
        takeover: takeover.options(),
    })?;
    let takeover = restore.takeover().clone();
    let what = format!(
        "restores {} into {} as a new cluster of one node",
        file.display(),
        data_dir.display()
    );
    let effect = effect(&what, &takeover);
    let work = || restore.carry_out().map(|()| None);
    confirmed(&effect, &takeover, &data_dir, session, work)
}

/// Asks for confirmation, carries the takeover out, and reports it. `work` returns the folder with
/// the old content, if any.
fn confirmed(
    effect: &str,
    takeover: &Takeover,
    data_dir: &Path,
    session: &Session,
    work: impl FnOnce() -> Result<Option<PathBuf>, OfflineError>,
) -> Result<u8, Failure> {
    if !session.may_go_on(effect)? {
        return session.print(&report(takeover, false, None)?);
    }
    keep_private(data_dir)?;
    let owner = Owner::of(data_dir);
    let done = work();
    keep_owner(owner, data_dir, session);
    report(takeover, true, done?.as_deref())?.print(session.format)?;
    session.note(&next_steps(takeover, data_dir));
    Ok(exit::OK)
}

pub(crate) fn recover(args: RecoverArgs, session: &Session) -> Result<u8, Failure> {
    let RecoverArgs {
        data_dir,
        name,
        peer,
        http,
        takeover,
    } = args;
    check(name.as_deref(), peer.as_deref(), http.as_deref())?;
    let says_how_far =
        !takeover.floors.is_empty() || takeover.margin.is_some() || takeover.written.is_some();
    let recovery = Recovery::plan(RecoveryOptions {
        data_dir: data_dir.clone(),
        name,
        peer,
        http,
        takeover: takeover.options(),
    })?;
    let recovering = match recovery {
        Recovery::Planned(recovering) => recovering,
        Recovery::Unfinished(_) if says_how_far => {
            return Err(Failure::usage(
                "an earlier recovery of this folder was interrupted after its floors, margin and \
                 time had taken effect: they cannot be changed; repeat the command without \
                 --floor, --margin and --written to finish it",
            ));
        }
        Recovery::Unfinished(unfinished) => {
            let mut effect = format!(
                "finishes the interrupted recovery of {}: its new content is complete and \
                 replaces the old content, which is kept",
                data_dir.display()
            );
            if let Some(consent) = unfinished.consent()? {
                let _ = write!(
                    effect,
                    "; this was confirmed when the recovery began:\n{consent}"
                );
            }
            if session.may_go_on(&effect)? {
                let owner = Owner::of(&data_dir);
                let kept = unfinished.finish();
                keep_owner(owner, &data_dir, session);
                let kept = kept?;
                session.note(&format!("the old content is in {}", kept.display()));
            }
            return Ok(exit::OK);
        }
    };
    let takeover = recovering.takeover().clone();
    let what = format!(
        "makes a new cluster of one node from the remaining content of {}",
        data_dir.display()
    );
    let effect = effect(&what, &takeover);
    let work = || recovering.carry_out(&effect).map(Some);
    confirmed(&effect, &takeover, &data_dir, session, work)
}

/// Checks the name and the addresses. Returns the host of the peer address.
fn check(name: Option<&str>, peer: Option<&str>, http: Option<&str>) -> Result<String, Failure> {
    if let Some(name) = name {
        validate_name(name).map_err(|error| Failure::usage(error.to_string()))?;
    }
    if let Some(http) = http.filter(|http| !is_node_url(http)) {
        let sample = base_url(format_args!("n1.example:{HTTP_PORT}"));
        let detail = format!("--http {http:?}: expected a URL without a path, such as {sample}");
        return Err(Failure::usage(detail));
    }
    let Some(peer) = peer else {
        return Ok(String::new());
    };
    check_host_port("--peer", peer).map_err(Failure::usage)?;
    let host = peer.rsplit_once(':').map(|(host, _)| host);
    Ok(host.unwrap_or(peer).to_owned())
}

fn seconds(ms: u64) -> String {
    humantime::format_duration(Duration::from_secs(ms.div_ceil(1000))).to_string()
}

/// The full text that the user confirms.
fn effect(what: &str, takeover: &Takeover) -> String {
    let mut text = format!("{what}\n");
    let notes = takeover.notes.iter().map(|note| ("note", note.clone()));
    let lines = clusters_and_age(takeover).into_iter().chain(notes);
    for (key, value) in lines.chain(promises(takeover)) {
        let _ = writeln!(text, "  {key:<12} {value}");
    }
    if !takeover.sequences.is_empty() {
        for line in of_sequences(Report::default(), takeover).table().lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text.pop();
    text
}

/// The old and the new cluster, and the age of the state.
fn clusters_and_age(takeover: &Takeover) -> Vec<(&'static str, String)> {
    let Takeover {
        from_cluster,
        former_members,
        cluster_id,
        member,
        ancestors,
        index,
        term,
        wall_ms,
        age_ms,
        ..
    } = takeover;
    let Member { name, peer, http } = member;
    let age = match u64::try_from(*age_ms) {
        Ok(age_ms) => format!("{} ago", seconds(age_ms)),
        Err(_) => format!(
            "{} ahead of this clock: nothing is granted before that time; if a leader's clock was \
             wrong, give the correct time with --written",
            seconds(age_ms.unsigned_abs())
        ),
    };
    let fate = match ancestors.as_slice() {
        [] => "are not affected: this is a rehearsal".to_owned(),
        [_] => "are rejected as superseded and stop permanently".to_owned(),
        [_, more @ ..] => format!(
            "are rejected as superseded and stop permanently; so are those of {}",
            more.join(", ")
        ),
    };
    let names = former_members.join(", ");
    let time = display::time(*wall_ms);
    vec![
        (
            "new cluster",
            format!("{cluster_id}: {name} at {peer}, {http}"),
        ),
        ("old cluster", format!("{from_cluster}: {names}")),
        ("its nodes", fate),
        (
            "state",
            format!("entry {index} of term {term}, {time}, {age}"),
        ),
    ]
}

/// The losses, the guarantees and their conditions.
fn promises(takeover: &Takeover) -> Vec<(&'static str, String)> {
    let Takeover {
        unproven_entries,
        max_peer_skew_ms,
        ids_after_ms,
        freed_holds,
        sequences,
        wall_ms_is_given,
        ..
    } = takeover;
    let lost =
        "everything acknowledged after that: created, changed or deleted sequences, and members";
    let mut lines = vec![("may be lost", lost.to_owned())];
    if *unproven_entries > 0 {
        let more = format!(
            "entries that may not be committed: the last {unproven_entries}; they are kept"
        );
        lines.push(("may be more", more));
    }
    let ids = format!(
        "unique, if every process of the old cluster has ended, no leader's clock was ahead after \
         this state was written, and this machine's clock is right within {max_peer_skew_ms} ms; the first comes {} \
         after the start",
        seconds(*ids_after_ms)
    );
    let tokens =
        "leases and grants get tokens above all earlier ones; earlier leases and grants are void";
    // Only a rehearsal leaves the old cluster alive.
    let ids = match takeover.ancestors.is_empty() {
        true => {
            "may repeat those of the old cluster, which keeps running: use none of them outside \
            the rehearsal"
                .to_owned()
        }
        false => ids,
    };
    lines.push(("IDs", ids));
    if *wall_ms_is_given {
        let given = "the time of the state is ignored: the statement about IDs depends on the \
            given time";
        lines.push(("time", given.to_owned()));
    }
    lines.push(("tokens", tokens.to_owned()));
    let locks = format!(
        "all are free; holds that are dropped: {freed_holds}. Before the start, stop every holder \
         that checks no fencing token, or wait for the longest ttl; restart CosId instances that \
         have a machine number"
    );
    lines.push(("locks", locks));
    let access = "all access tokens are lost: create them again with the operator's token (seqd access \
        create)";
    lines.push(("access", access.to_owned()));
    lines.push(("sequences", guarantee(sequences)));
    lines
}

/// The guarantee for the sequences, as one sentence.
fn guarantee(sequences: &[SequenceTakeover]) -> String {
    let by_margin = sequences.iter().any(|sequence| sequence.margin.is_some());
    match (sequences.is_empty(), by_margin) {
        (true, _) => "there are none; create a sequence that was made since then with its --start",
        (false, false) => "no value before the floor (NEXT below) is repeated; later values may be",
        (false, true) => {
            "no value before NEXT below is repeated; later values may be. A margin is NOT a \
             guarantee: EXPECTED is computed from the average rate since the cluster began"
        }
    }
    .to_owned()
}

fn cells(sequence: &SequenceTakeover) -> Vec<String> {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none left".to_owned());
    let next = match &sequence.continues_at {
        Some(later) => format!("none until extended, then {later}"),
        None => value(&sequence.next_after),
    };
    let deleted = if sequence.deleted { " (deleted)" } else { "" };
    let by = match (&sequence.floor, sequence.margin) {
        (Some(floor), _) => format!("floor {floor}"),
        (None, margin) => format!("margin {}", margin.unwrap_or(0)),
    };
    vec![
        format!("{}{deleted}", sequence.name),
        sequence.mode.clone(),
        value(&sequence.next_before),
        next,
        by,
        sequence.passed_over.to_string(),
        or_dash(sequence.expected),
    ]
}

/// The result for programs. People have read it before the confirmation.
fn report(takeover: &Takeover, done: bool, kept: Option<&Path>) -> Result<Report, Failure> {
    let mut json = serde_json::to_value(takeover)
        .map_err(|error| Failure::failed(format!("cannot write it: {error}")))?;
    json["done"] = done.into();
    json["kept_aside"] = kept.map(|path| path.display().to_string()).into();
    let people = match (done, kept) {
        (false, _) => String::new(),
        (true, None) => format!("cluster {}\n", takeover.cluster_id),
        (true, Some(kept)) => format!(
            "cluster {}; the old content is in {}\n",
            takeover.cluster_id,
            kept.display()
        ),
    };
    Ok(of_sequences(Report::new(&json)?, takeover).with_people(people))
}

fn of_sequences(report: Report, takeover: &Takeover) -> Report {
    let columns = "name mode was next by passed_over expected";
    let mut report = report.with_columns(columns);
    for sequence in &takeover.sequences {
        report.row(cells(sequence));
    }
    report
}

fn keep_private(folder: &Path) -> Result<(), Failure> {
    private::keep(folder).map_err(|error| {
        let folder = folder.display();
        Failure::failed(format!(
            "cannot remove the access of other users to {folder}: {error}"
        ))
    })
}

/// Gives new files to the owner of the folder. The content is complete without it, so a failure is
/// a message with the remedy.
fn keep_owner(owner: Option<Owner>, folder: &Path, session: &Session) {
    let Some(owner) = owner else {
        return;
    };
    if let Err(error) = owner.give(folder) {
        let folder = folder.display();
        session.note(&format!(
            "cannot keep the owner: {error}; run chown -R {owner} {folder}"
        ));
    }
}

fn next_steps(takeover: &Takeover, data_dir: &Path) -> String {
    let name = &takeover.member.name;
    // The other machines still run the old cluster.
    if takeover.ancestors.is_empty() {
        return format!(
            "next: start seqd server as {name} on {0}; use none of its numbers outside the \
             rehearsal, and delete {0} afterwards",
            data_dir.display()
        );
    }
    format!(
        "next: start seqd server as {name} on {}; on each other machine empty the folder, start \
         seqd, and run `seqd member add NAME HOST:PORT --wait` and `seqd member promote NAME`",
        data_dir.display()
    )
}

#[cfg(test)]
mod tests;
