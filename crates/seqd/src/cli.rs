//! The command line: global options and the list of commands.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands::{
    access, bench, completions, config, data, decode, drain, elect, id, import, key, layout,
    leader, lock, man, member, run_held, seq, snapshot, status, timestamp, tls, token, uuid,
    verify_ids, worker,
};
use crate::session::Global;
use crate::supervise::guardian;
use crate::{demo, examples, server};

/// A clustered sequencer: snowflake IDs, UUIDs and sequences from one binary.
#[derive(Debug, Parser)]
#[command(
    name = "seqd",
    version,
    propagate_version = false,
    max_term_width = 100
)]
#[command(after_help = EXIT_CODES, mut_subcommands = examples::add)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 auth, \
5 unavailable or no quorum (retry), 6 conflict, 7 unhealthy, 8 outcome unknown; \
server: 9 folder refused or node removed, 10 failed fsync, corruption, broken invariant.";

/// The flag for a help with all global options.
const HELP_ALL: &str = "--help-all";

/// The short list of global options in the help of a command.
const GLOBAL: &str = "\
Global options (--help-all describes them):
  -e, --endpoints HOST:PORT,...   --token-file FILE   --cacert FILE   --cert FILE   --key FILE
  -o, --output FORMAT   --timeout TIME   -q, --quiet   -v, --verbose   --yes   --dry-run";

/// Parses a command line. Unless the line contains `--help-all`, the help of a command lists the
/// global options only in short, because they are the same for every command.
pub(crate) fn parse(line: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut line: Vec<OsString> = line.collect();
    run_held::join_on_lost(&mut line);
    // The words after `--` belong to another program.
    let mut own = line.iter().take_while(|word| *word != "--");
    let asks_for_all = own.clone().position(|word| word == HELP_ALL);
    let mut command = Cli::command();
    let names_a_command = own.any(|word| command.find_subcommand(word).is_some());
    match asks_for_all {
        Some(at) => line[at] = "--help".into(),
        None if names_a_command => command = in_short(command),
        None => {}
    }
    Cli::from_arg_matches(&command.try_get_matches_from(line)?)
}

/// The command with short global options in the help of its subcommands.
fn in_short(command: clap::Command) -> clap::Command {
    fn with_block(command: clap::Command) -> clap::Command {
        let examples = command.get_after_help().map(ToString::to_string);
        let block = match examples {
            Some(examples) => format!("{GLOBAL}\n\n{examples}"),
            None => GLOBAL.to_owned(),
        };
        command.after_help(block).mut_subcommands(with_block)
    }
    let command = command.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || arg.is_global_set();
        arg.hide(is_hidden)
    });
    command.mut_subcommands(with_block)
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demo cluster: three real nodes on loopback
    Demo(demo::DemoArgs),
    /// Run a node
    Server(server::ServerArgs),
    /// Show the cluster at a glance
    Status(status::StatusArgs),
    /// Check the cluster as an expert would, with the reason and the remedy of each finding
    Doctor,
    /// Allocate snowflake IDs
    Id(id::IdArgs),
    /// Decode IDs into time, worker and sequence
    Decode(decode::DecodeArgs),
    /// Check a column of IDs: whether this cluster can have issued them, which nodes did, and which
    /// IDs repeat
    VerifyIds(verify_ids::VerifyIdsArgs),
    /// Allocate UUIDs
    Uuid(uuid::UuidArgs),
    /// Allocate timestamps that increase over all nodes
    Timestamp(timestamp::TimestampArgs),
    /// Create, use and manage sequences
    #[command(subcommand)]
    Seq(seq::SeqCommand),
    /// Show and create layouts, the definitions of snowflake IDs
    #[command(subcommand)]
    Layout(layout::LayoutCommand),
    /// Create or advance sequences from the tables of another system
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Lease workers for generators outside the cluster
    #[command(subcommand)]
    Worker(worker::WorkerCommand),
    /// Idempotency keys: one caller does the work, the others receive its result
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Issue and consume one-time tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Elections: exactly one of many candidates runs its command
    #[command(subcommand)]
    Elect(elect::ElectCommand),
    /// Acquire, release and inspect locks
    #[command(subcommand)]
    Lock(lock::LockCommand),
    /// List and change the members of the cluster
    #[command(subcommand)]
    Member(member::MemberCommand),
    /// Show or move the leader of the cluster
    #[command(subcommand)]
    Leader(leader::LeaderCommand),
    /// Take a node out of its balancers: its readiness fails, it serves requests, and others lead
    Drain(drain::DrainArgs),
    /// End the drain of a node
    Resume(drain::DrainArgs),
    /// Save, check and restore snapshots of the cluster's state
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Inspect, verify or recover the data folder of a stopped node
    #[command(subcommand)]
    Data(data::DataCommand),
    /// Create, list and revoke access tokens
    #[command(subcommand)]
    Access(access::AccessCommand),
    /// Make certificates for nodes and clients
    #[command(subcommand)]
    Tls(tls::TlsCommand),
    /// Measure rates and latencies, and check the numbers that are returned
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Generate, check and show configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// The version of the node that answers
    #[cfg(test)]
    Example(crate::commands::example::ExampleArgs),
    /// Print completions for a shell on stdout
    Completions(completions::CompletionsArgs),
    /// Write man pages to a folder
    Man(man::ManArgs),
    /// Print the version of this binary
    Version,
    /// End the command of `lock run` and `elect run` in time
    #[command(hide = true, name = guardian::COMMAND)]
    Guardian(guardian::GuardianArgs),
}

impl Command {
    /// Returns whether the command supports `--dry-run`.
    pub(crate) const fn has_dry_run(&self) -> bool {
        matches!(
            self,
            Self::Seq(
                seq::SeqCommand::Create(_)
                    | seq::SeqCommand::Update(_)
                    | seq::SeqCommand::Advance { .. }
                    | seq::SeqCommand::Delete { .. }
            ) | Self::Member(
                member::MemberCommand::Add { .. }
                    | member::MemberCommand::Update(_)
                    | member::MemberCommand::Promote { .. }
                    | member::MemberCommand::Demote { .. }
                    | member::MemberCommand::Replace(_)
                    | member::MemberCommand::Remove { .. }
            ) | Self::Access(
                access::AccessCommand::Create(_) | access::AccessCommand::Revoke { .. }
            ) | Self::Lock(lock::LockCommand::Break { .. })
                | Self::Import(_)
                | Self::Key(key::KeyCommand::Delete { .. })
                | Self::Token(token::TokenCommand::Delete { .. })
                | Self::Leader(leader::LeaderCommand::Move { .. })
                | Self::Drain(_)
                | Self::Resume(_)
                | Self::Layout(layout::LayoutCommand::Create(_))
                | Self::Worker(worker::WorkerCommand::Reset { .. })
                | Self::Snapshot(snapshot::SnapshotCommand::Restore(_))
                | Self::Data(data::DataCommand::RecoverQuorum(_))
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::format::Format;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        // As in a shell, single quotes keep a word as it is.
        super::parse(line.split_whitespace().map(|word| {
            let quoted = word.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
            quoted
                .map_or_else(|| word.replace('"', ""), str::to_owned)
                .into()
        }))
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_a_command_is_short_unless_all_is_requested() {
        let help = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            super::parse(words).unwrap_err().to_string()
        };
        for line in ["seqd seq next --help", "seqd status -h", "seqd lock --help"] {
            let short = help(line);
            assert!(
                short.contains(GLOBAL) && short.contains("Example"),
                "{short}"
            );
            assert!(!short.contains("SEQD_ENDPOINTS"), "{short}");
        }
        for line in ["seqd seq next --help-all", "seqd --help", "seqd --help-all"] {
            let long = help(line);
            assert!(
                long.contains("SEQD_ENDPOINTS") && !long.contains(GLOBAL),
                "{long}"
            );
        }
        // The words after `--` belong to another program.
        let line = "seqd lock run jobs -- x --help-all";
        assert!(super::parse(line.split(' ').map(OsString::from)).is_ok());
    }

    #[test]
    fn global_options_stand_before_or_after_the_subcommand() {
        let lines = [
            "seqd -e a:1,b:2 -o json --timeout 2s id -n 3",
            "seqd id -n 3 --endpoints a:1,b:2 -o json --timeout 2s",
            "seqd -o json id -e a:1,b:2 --timeout 2s -n 3",
        ];
        for line in lines {
            let cli = parse(line).unwrap();
            assert_eq!(cli.global.endpoints, "a:1,b:2", "{line}");
            assert_eq!(cli.global.output, Format::Json, "{line}");
            assert_eq!(cli.global.timeout, Some(Duration::from_secs(2)), "{line}");
        }
        let cli = parse("seqd seq next order --count 2 -q --yes").unwrap();
        assert!(cli.global.quiet && cli.global.yes && !cli.global.dry_run);
    }

    /// The forms of the commands that are not among the examples.
    const PUBLISHED: &[&str] = &[
        "seqd demo --data-dir /tmp/x",
        "seqd server --name n1 --http-listen 127.0.0.1:0 --peer-peers n1=a:1,n2=b:1",
        "seqd id -n 5 --format b62 --pad 12 --layout default",
        "seqd decode 117450583018840065 7 --format dec",
        "seqd decode",
        "seqd example --short",
        "seqd uuid -n 2 --version 4",
        "seqd seq list --prefix a --stale",
        "seqd seq create down --mode segment --start -1 --increment -1 --min -9 --max -1 --cycle",
        "seqd seq delete order --yes",
        "seqd seq next order --count 100 --contiguous",
        "seqd seq advance order -5",
        "seqd worker list --layout default --past",
        "seqd worker lease --owner pod-7 --layout js53 --datacenter 3",
        "seqd worker renew 17 --owner pod-7 --lease 152051615188281658329 --layout js53",
        "seqd worker release 17 --owner pod-7 --lease 152051615188281658329 --last-tick 5",
        "seqd key begin pay-42 --ttl 1h --claim-ttl 10s --fingerprint sha:5f --nonce n1",
        "seqd key get pay-42 --stale -o json",
        "seqd key list --prefix pay- --tenant token:00000000000004d2 --requests --limit 10",
        "seqd key delete pay-42 --yes",
        "seqd key delete --prefix pay- --tenant address:10.0.0.1 --yes",
        "seqd token list --tenant operator -o json",
        "seqd token delete 00000000abc --yes",
        "seqd token delete --tenant token:00000000000004d2 --dry-run",
        "seqd token consume 00000000000abc --nonce n1",
        "seqd lock acquire jobs/nightly --owner pod-7 --ttl 10s --wait 1m --nonce 4711",
        "seqd lock acquire jobs --owner pod-7 --permits 3 --lock-delay 5s -o plain",
        "seqd lock acquire jobs --owner pod-7 --shared --lease 12",
        "seqd lock break jobs/nightly --token 12 --yes",
        "seqd lock run jobs --permits 3 --on-lost kill --owner a -- true",
        "seqd lock run jobs --on-lost run stop.sh --grace 2s -- sleep 5",
        "seqd lock run --on-lost run stop.sh jobs -- sleep 5",
        "seqd lock run --on-lost kill jobs -- job --on-lost run x",
        "seqd elect run boss --ttl 10s --once -- serve",
        "seqd lock get jobs/nightly -o json",
        "seqd verify-ids",
        "seqd verify-ids column.txt --layout twitter --foreign --examples 20 -o json",
        "seqd layout create slow --tick-ms 10 --order tick-sequence-worker --dry-run",
        "seqd layout encode default --time 2026-11-21T00:00:00Z --worker 3 --sequence 1",
        "seqd worker reset n2 --yes --dry-run",
        "seqd member add n4 n4.example:7401 --http http://n4.example:7400 --wait",
        "seqd member update n2 --http http://n2:7400 --peer n2:7401 --wait",
        "seqd member demote n4 --wait --yes --dry-run",
        "seqd member replace n1 n4 n4:7401 --http http://n4:7400 --wait --yes",
        "seqd member remove n4 --wait --yes --dry-run",
        "seqd snapshot save backup.snap --stale --yes",
        "seqd snapshot inspect backup.snap -o json",
        "seqd data verify --data-dir /var/lib/seqd -o jsonl",
        "seqd snapshot restore x.snap --data-dir /d --name n1 --peer n1:7401 --floor a=5 --margin 0",
        "seqd data recover-quorum --data-dir /d --floor a=-5 --floor b=7 --drill --yes",
        "seqd access create --scope allocate:order.,read --ttl 90d --rate 100 --description billing",
        "seqd access create --scope read --scope admin:test. --out token",
        "seqd access list -o json",
        "seqd access revoke 0123456789abcdef --yes",
        "seqd tls init --dir tls --nodes n1=n1.example,n2=10.0.0.2 --client app --days 90",
        "seqd tls inspect tls/n1.crt tls/ca.crt -o json",
        "seqd id -n 1 --cacert ca.crt --cert app.crt --key app.key",
        "seqd bench ids --clients 64 --duration 5s --warm-up 0s --count 100 --layout default",
        "seqd bench seq --requests 100000 --name order",
        "seqd bench strict --rate 500 -e a,b,c --vs d,e --round 2s",
        "seqd bench ordered --no-check -o csv",
        "seqd bench locks --names 4",
        "seqd bench url http://127.0.0.1:8080/next --method POST --body {} --json-field data.id",
        "seqd bench url http://a/ --header x-a:1 --order --vs http://b/",
        "seqd config check --config x.toml",
        "seqd config show --origin --http-max-count 5",
    ];

    #[test]
    fn every_published_command_parses() {
        for line in PUBLISHED.iter().chain(examples::EXAMPLES) {
            assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
        }
    }

    #[test]
    fn the_help_of_every_command_has_an_example() {
        fn lacking(command: &clap::Command) -> Vec<String> {
            let own = command.get_subcommands();
            let inner: Vec<String> = own.flat_map(lacking).collect();
            let exempt = command.is_hide_set() || command.get_name() == "example";
            if exempt || command.get_after_help().is_some() {
                return inner;
            }
            [inner, vec![command.get_name().to_owned()]].concat()
        }
        let lacking = lacking(&Cli::command());
        assert!(lacking.is_empty(), "no example in examples.rs: {lacking:?}");
    }

    #[test]
    fn an_unpublished_command_line_is_a_usage_error() {
        let lines = [
            "seqd",
            "seqd seq",
            "seqd nosuch",
            "seqd id --cuont 3",
            "seqd id -n x",
            "seqd uuid --version 5",
            "seqd -o yaml id",
            "seqd --timeout 0s id",
            "seqd seq next",
            "seqd seq create a --mode fast",
            "seqd lock acquire jobs",
            "seqd lock run jobs",
            "seqd lock run jobs --ttl 100ms -- true",
            "seqd elect run boss --ttl 25h -- true",
            "seqd lock release jobs --owner a",
            "seqd member update n2",
            "seqd member replace n1 n4",
            "seqd snapshot save",
            "seqd data verify",
            "seqd key begin",
            "seqd key complete pay-42 --claim 9 --result {",
            "seqd key abandon pay-42",
            "seqd token consume",
            "seqd access create",
            "seqd access create --scope write",
            "seqd access revoke",
            "seqd tls init --dir tls",
            "seqd bench",
            "seqd bench url",
            "seqd bench ids --clients 0",
            "seqd bench ids --rate 0",
            "seqd bench ids --vs a --requests 5",
            "seqd bench url http://a/ --json-field a..b",
            "seqd tls inspect",
            "seqd tls init --dir tls --nodes a --days 0",
        ];
        for line in lines {
            assert_eq!(
                parse(line).map(|_| ()).unwrap_err().exit_code(),
                2,
                "{line}"
            );
        }
    }
}
