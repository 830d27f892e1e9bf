//! `seqd status`: the cluster at a glance.
//!
//! The command sends its requests to one of the given endpoints. Members report their rates,
//! workers and applied entries to each other once a second, so the command contacts no other
//! member: a client with a token must not use an address from a response.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use seqd_client::api::advice::{LOST_MAJORITY, lost_for_long};
use seqd_client::api::{ClockAgreement, Cluster, LayoutLife, Member, MemberState, Role, exit};
use seqd_client::{Client, Error, Options};

use crate::display::{self, SECONDS_PER_DAY, or_dash, seconds_to};
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Reader, Report, clear_screen, reader_of_stdout, write_stdout};
use crate::session::Session;

/// The interval of `--watch`: slow enough to read, fast enough to see an election.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// The options of the command.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print the status again every second, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// The table has a star at the node that answered. The exit code is 7 if there is no leader or no
/// quorum.
pub(crate) async fn run(args: StatusArgs, session: &Session) -> Result<u8, Failure> {
    if !args.watch {
        let (report, code) = look(session).await?;
        report.print(session.format)?;
        return Ok(code);
    }
    let clear = io::stdout().is_terminal() && session.format == Format::Table;
    loop {
        let seen = look(session).await;
        if clear {
            clear_screen()?;
        }
        let reader = match seen {
            Ok((report, _)) => write_stdout(&report.text(session.format))?,
            Err(failure) => {
                failure.print(session.format);
                reader_of_stdout()
            }
        };
        if reader == Reader::Gone {
            return Ok(exit::OK);
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn look(session: &Session) -> Result<(Report, u8), Failure> {
    let cluster = session.client.cluster().await?;
    let mut report = report(&cluster, Timestamp::now())?;
    if cluster.members.is_empty() {
        report = report.with_people(not_yet(&cluster, session).await);
    }
    let code = match healthy(&cluster) {
        true => exit::OK,
        false => exit::UNHEALTHY,
    };
    Ok((report, code))
}

/// The text for a node that lists no members, with the reason. Only the node that sent the view of
/// the cluster is asked for it.
async fn not_yet(cluster: &Cluster, session: &Session) -> String {
    let alone = Options {
        endpoints: vec![session.client.last_answered().clone()],
        ..session.options.clone()
    };
    let ready = async { Client::new(alone)?.ready().await };
    let why = match ready.await {
        Ok(_) => "the node has just begun to serve".to_owned(),
        Err(Error::Problem(problem)) => problem.detail.into_string(),
        Err(error) => error.to_string(),
    };
    let advice = match cluster.cluster_id {
        None => String::new(),
        Some(_) => format!("start the other members; {LOST_MAJORITY}\n"),
    };
    format!("{}: {why}\n{advice}", cluster.standing())
}

fn healthy(cluster: &Cluster) -> bool {
    let quorum = cluster.quorum;
    cluster.leader.is_some() && quorum.reachable > quorum.voters / 2
}

fn report(cluster: &Cluster, now: Timestamp) -> Result<Report, Failure> {
    let columns = "node role state term applied lag clock worker ids/s version";
    let mut report = Report::new(cluster)?.with_columns(columns);
    let mut people = Report::default().with_columns(columns);
    for member in &cluster.members {
        let mut cells = row(member, cluster);
        report.row(cells.clone());
        if member.name == cluster.node {
            cells[0].push_str(" *");
        }
        people.row(cells);
    }
    let people = format!("{}{}\n{LEGEND}", people.table(), summary(cluster, now));
    Ok(report.with_people(people))
}

/// The meaning of the columns and words that the table does not explain itself.
const LEGEND: &str = "\
* the node that answered (clock: ref).  lag: entries behind the leader.  clock: ahead (+) of ref or
behind (-).  worker: worker numbers by layout.  level: version of the formats that may be written.
";

fn row(member: &Member, cluster: &Cluster) -> Vec<String> {
    let asked = member.name == cluster.node;
    let lag = match member.role {
        Role::Leader => None,
        _ => member.lag_entries,
    };
    let clock = match member.clock_offset_ms {
        _ if asked => "ref".to_owned(),
        Some(offset) => format!("{offset:+.1}ms"),
        None => "-".to_owned(),
    };
    vec![
        member.name.clone(),
        member.role.as_str().to_owned(),
        member.state.as_str().to_owned(),
        cluster.term.to_string(),
        or_dash(member.applied),
        or_dash(lag),
        clock,
        workers(member),
        or_dash(member.ids_per_second.map(rate)),
        or_dash(member.version.as_ref()),
    ]
}

/// The workers of a member: the worker of the default layout as a number, others with the name of
/// their layout, several of one layout as `2+5+6`.
fn workers(member: &Member) -> String {
    let texts: Vec<String> = member
        .workers
        .iter()
        .map(|(layout, id)| {
            let mut text = match layout.as_str() {
                "default" => id.to_string(),
                _ => format!("{layout}:{id}"),
            };
            for id in member.more_workers.get(layout).into_iter().flatten() {
                text.push_str(&format!("+{id}"));
            }
            text
        })
        .collect();
    if texts.is_empty() {
        "-".to_owned()
    } else {
        texts.join(",")
    }
}

/// A rate such as `12.0k`, with about three digits.
fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 999_950.0 => format!("{:.1}M", rate / 1e6),
        rate if rate >= 1000.0 => format!("{:.1}k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

fn summary(cluster: &Cluster, now: Timestamp) -> String {
    let quorum = cluster.quorum;
    let nodes = if quorum.can_lose == 1 {
        "node"
    } else {
        "nodes"
    };
    let mut text = if quorum.reachable > quorum.voters / 2 {
        format!(
            "quorum {}/{}, can lose {} {nodes}.",
            quorum.reachable, quorum.voters, quorum.can_lose
        )
    } else {
        lost(cluster)
    };
    if cluster.leader.is_none() {
        text.push_str("  no leader with a quorum.");
    }
    if cluster.level > 0 {
        text.push_str(&format!("  level {}.", cluster.level));
    }
    for layout in &cluster.layouts {
        text.push_str(&format!("  {}.", life(layout, now)));
    }
    for layout in &cluster.layouts {
        text.push_str(&runs_out(layout, now));
    }
    text.push_str(&wrong_clocks(cluster));
    if let Some(needed) = cluster.voter_change_needs() {
        text.push_str(&format!(
            "\na change of voters is under way and needs {needed}."
        ));
    }
    if let Some(advice) = lost_for_long(cluster.quorum_lost_ms) {
        text.push_str(&format!("\n{advice}."));
    }
    text
}

/// A line if the layout's time ends within a year or has ended, and a line if its workers run out
/// within a month.
fn runs_out(layout: &LayoutLife, now: Timestamp) -> String {
    let name = &layout.name;
    let seconds_to = |time: &str| seconds_to(time, now);
    let mut lines = String::new();
    match seconds_to(&layout.exhausted_at) {
        Some(seconds) if seconds <= 0 => lines.push_str(&format!(
            "\nlayout {name} is FULL since {}: it issues no more IDs.",
            layout.exhausted_at
        )),
        Some(seconds) if seconds <= SECONDS_PER_YEAR => lines.push_str(&format!(
            "\nlayout {name} ENDS at {}, in {} days: it issues no IDs after that; use another \
             layout.",
            layout.exhausted_at,
            seconds / SECONDS_PER_DAY
        )),
        _ => {}
    }
    let free = layout.workers_free_for_clients;
    let none_left = layout.workers_exhausted_at.as_deref();
    if let Some(seconds) = none_left.and_then(seconds_to)
        && seconds <= MONTH * SECONDS_PER_DAY
    {
        lines.push_str(&format!(
            "\nworkers of layout {name} RUN OUT: {free} are free for clients, and none in {} \
             days if leases keep growing at this rate.",
            seconds.max(0) / SECONDS_PER_DAY
        ));
    }
    lines
}

/// One line for each wrong clock, or one line if the clocks disagree and no majority decides.
fn wrong_clocks(cluster: &Cluster) -> String {
    let wrong = cluster.members.iter().filter_map(|member| {
        let wrong = display::wrong_clock(member)?;
        Some(format!(
            "\nclock WRONG: {wrong}; the node issues no IDs until the clock is corrected (check its \
             time service: chrony, ntpd, systemd-timesyncd)."
        ))
    });
    let lines: String = wrong.collect();
    if lines.is_empty() && cluster.clocks == ClockAgreement::Split {
        return "\nclocks DISAGREE: no majority of them agrees, so the nodes that detect it issue \
            no IDs; compare the clocks with a correct one."
            .to_owned();
    }
    lines
}

/// The voters that are missing for a quorum, as the answering node sees it.
fn lost(cluster: &Cluster) -> String {
    let quorum = cluster.quorum;
    let missing: Vec<&str> = cluster
        .members
        .iter()
        .filter(|member| member.role != Role::Learner)
        .filter(|member| member.state == MemberState::Unreachable)
        .map(|member| member.name.as_str())
        .collect();
    format!(
        "quorum LOST {}/{}: {} does not reach {}.",
        quorum.reachable,
        quorum.voters,
        cluster.node,
        missing.join(", ")
    )
}

fn life(layout: &LayoutLife, now: Timestamp) -> String {
    let LayoutLife {
        name,
        exhausted_at,
        workers_assigned,
        workers_capacity,
        ..
    } = layout;
    // A layout may last until after the year 9999, which RFC 3339 cannot express.
    let date = (exhausted_at.split_once('T')).map_or(&**exhausted_at, |(date, _)| date);
    let years = match seconds_to(exhausted_at, now) {
        Some(seconds) if seconds <= 0 => " (full)".to_owned(),
        Some(seconds) => format!(" ({}y)", seconds / SECONDS_PER_YEAR),
        None => String::new(),
    };
    format!(
        "layout {name} lasts until {date}{years}.  workers {workers_assigned}/{workers_capacity}"
    )
}

/// A Julian year, which includes leap days.
const SECONDS_PER_YEAR: i64 = 31_557_600;

/// `status` warns of workers that run out within this many days.
const MONTH: i64 = 30;

#[cfg(test)]
mod tests {
    use seqd_client::api::{Quorum, VoterChange};

    use super::*;

    fn cluster() -> Cluster {
        serde_json::from_str(
            r#"{"cluster_id":"01J9","node":"n1","applied":42,"digest":"ab","leader":"n1","term":1,
            "quorum":{"voters":3,"reachable":3,"can_lose":1},
            "members":[
             {"name":"n1","id":"1","role":"leader","state":"ready","http":"http://a:1","peer":"a:2",
              "applied":42,"lag_entries":0,"clock_offset_ms":null,"workers":{"default":1},
              "version":"0.1.0","ids_per_second":12000.0},
             {"name":"n2","id":"2","role":"follower","state":"catching-up","http":null,"peer":"b:2",
              "applied":40,"lag_entries":2,"clock_offset_ms":-0.25,"workers":{"default":2,"leaf":0},
              "version":"0.1.0"},
             {"name":"n3","id":"3","role":"follower","state":"unreachable","http":null,"peer":"c:2"}],
            "layouts":[{"name":"default","exhausted_at":"2095-09-07T15:47:35.552Z",
             "workers_assigned":3,"workers_capacity":1024,"workers_free_for_clients":893}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn people_read_the_published_table() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let text = report(&cluster(), now).unwrap().text(Format::Table);
        let expected = "\
NODE  ROLE      STATE        TERM  APPLIED  LAG  CLOCK   WORKER    IDS/S  VERSION
n1 *  leader    ready        1     42       -    ref     1         12.0k  0.1.0
n2    follower  catching-up  1     40       2    -0.2ms  2,leaf:0  -      0.1.0
n3    follower  unreachable  1     -        -    -       -         -      -
quorum 3/3, can lose 1 node.  layout default lasts until 2095-09-07 (68y).  workers 3/1024.
";
        assert_eq!(text, format!("{expected}{LEGEND}"));
        let plain = report(&cluster(), now).unwrap().text(Format::Plain);
        assert!(plain.starts_with("n1\tleader\tready\t1\t42\t-\tref\t1\t12.0k\t0.1.0\n"));
    }

    #[test]
    fn a_resource_that_runs_out_has_a_line_before_it_does() {
        let mut cluster = cluster();
        let lines = |cluster: &Cluster, now: &str| {
            let now = now.parse().unwrap();
            let text = report(cluster, now).unwrap().text(Format::Table);
            let text = text.trim_end_matches(LEGEND);
            text.lines().skip(5).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&cluster, "2094-09-06T00:00:00Z"), [""; 0]);
        let ends = "layout default ENDS at 2095-09-07T15:47:35.552Z, in 31 days: it issues no IDs \
            after that; use another layout.";
        assert_eq!(lines(&cluster, "2095-08-07T00:00:00Z"), [ends]);
        let last = lines(&cluster, "2095-09-07T15:47:34.552Z");
        assert!(last[0].contains("in 0 days"), "{last:?}");
        let full = "layout default is FULL since 2095-09-07T15:47:35.552Z: it issues no more IDs.";
        assert_eq!(lines(&cluster, "2095-09-07T15:47:35.552Z"), [full]);

        cluster.layouts[0].workers_exhausted_at = Some("2026-12-01T00:00:00Z".to_owned());
        let out = "workers of layout default RUN OUT: 893 are free for clients, and none in 10 \
            days if leases keep growing at this rate.";
        assert_eq!(lines(&cluster, "2026-11-21T00:00:00Z"), [out]);
        assert_eq!(lines(&cluster, "2026-10-21T00:00:00Z"), [""; 0]);
    }

    #[test]
    fn several_workers_of_a_layout_stand_side_by_side() {
        let mut cluster = cluster();
        let member = &mut cluster.members[1];
        let more = [("default", vec![7, 8]), ("leaf", vec![3])];
        member.more_workers = more.map(|(layout, ids)| (layout.to_owned(), ids)).into();
        assert_eq!(workers(member), "2+7+8,leaf:0+3");
    }

    #[test]
    fn no_leader_or_no_quorum_is_unhealthy() {
        let well = cluster();
        assert!(healthy(&well));
        assert!(!healthy(&Cluster {
            leader: None,
            ..well.clone()
        }));
        let mut alone = well;
        alone.quorum.reachable = 1;
        assert!(!healthy(&alone));
    }

    #[test]
    fn a_lost_quorum_is_reported_with_the_missing_members() {
        let mut lost = cluster();
        (lost.leader, lost.quorum) = (None, Quorum::of(3, 1));
        lost.members[1].state = MemberState::Unreachable;
        let text = report(&lost, Timestamp::MIN).unwrap();
        let text = text.text(Format::Table);
        let expected =
            "quorum LOST 1/3: n1 does not reach n2, n3.  no leader with a quorum.  layout";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("recover-quorum"), "{text}");

        lost.quorum_lost_ms = Some(61_000);
        let text = summary(&lost, Timestamp::MIN);
        assert!(
            text.contains("\nno quorum for 61 s: start the missing nodes;"),
            "{text}"
        );
    }

    #[test]
    fn a_change_of_voters_names_the_voters_that_it_needs() {
        let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect();
        let line = |former: &[&str], new: &[&str]| {
            let mut cluster = cluster();
            cluster.voter_change = Some(VoterChange {
                former: names(former),
                new: names(new),
            });
            let text = summary(&cluster, Timestamp::MIN);
            text.lines().nth(1).map(str::to_owned)
        };
        let under_way = "a change of voters is under way and needs";
        // n3 is unreachable, and n4 and n5 are not members.
        assert_eq!(line(&["n1", "n2"], &["n1", "n2", "n3"]), None);
        for (former, new, needs) in [
            (&["n1", "n2"][..], &["n1", "n3", "n5"][..], "n3 or n5"),
            (&["n1", "n3"], &["n1"], "n3"),
            (&["n1", "n3"], &["n1", "n4"], "n3, and n4"),
            (&["n1"], &["n3", "n4"], "n3 and n4"),
            (&["n1"], &["n3", "n4", "n5"], "2 of n3, n4, n5"),
        ] {
            assert_eq!(line(former, new), Some(format!("{under_way} {needs}.")));
        }
    }

    #[test]
    fn rates_are_short() {
        let shown: Vec<_> = [0.0, 999.4, 12_000.0, 999_960.0, 1.25e6].map(rate).into();
        assert_eq!(shown, ["0", "999", "12.0k", "1.0M", "1.2M"]);
    }
}
