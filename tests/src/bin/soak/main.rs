//! Longer runs of the stories. Each prints its figures and its verdict.
//!
//! `cargo run --release -p seqd-tests --bin soak -- COMMAND`. The exit code is 0 only if no
//! invariant was violated. A run in which a planned fault had no effect fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program: a panic with a message is how a run fails"
)]

mod arguments;
mod attackers;
mod bare;
mod bench;
mod catch_up;
mod chaos;
mod clock_table;
mod clocks;
mod compare;
mod disk;
mod endurance;
mod expiry;
mod failover;
mod filling;
mod fsync_delay;
mod generators;
mod group_commit;
mod growth;
mod hostile;
mod ids;
mod keys;
mod links;
mod lock_cycles;
mod locks;
mod members;
mod model;
mod power_cuts;
mod redis_rates;
mod rolling;
mod scale;
mod segments;
mod servers;
mod takeover;
mod tenants;
mod workers;

use std::process::ExitCode;

use arguments::Arguments;
use seqd_tests::checkers::Violation;
use seqd_tests::cluster::Cluster;
use seqd_tests::like_postgres::compared;
use seqd_tests::postgres::Postgres;
use seqd_tests::report::Report;
use seqd_tests::runs::{ValueRun, values_while_leaders_are_killed};
use seqd_tests::seed::Random;

const USAGE: &str = "usage: soak COMMAND
  ids [--count 10000000]        IDs from all nodes while each in turn is killed
  strict [--kills 5] [--between 5000] [--clients 8]
                                a strict sequence while leaders are killed, after so many values each,
                                then all nodes
  ordered [--kills 20] [--between 20000] [--clients 8]
                                the same of an ordered sequence
  segments [--draws 5000000]    a segment sequence while refills are slow or fail and nodes are killed
                                (strace)
  chaos [--seconds 120]         random faults under a mixed load, every checker
  clocks steps [--steps 3000] [--seed N]
                                clocks that are set by a millisecond to ten days, strobed, drifting and
                                stopped, processes killed meanwhile (libfaketime)
  clocks table [--long 120]     the leader's clock wrong by 3 s to ten years, for 3 s and for so many
                                seconds: who notices, who refuses, and a restore afterwards
  links [--seconds 60] [--nodes 3|5] [--fault NAME]
                                each fault of the links alone, under a mixed load (root)
  lock-cycles [--seconds 5]     locks taken and given back, beside those of etcd and Redis
  like-postgres [--definitions 10000]
                                random definitions and draws beside a PostgreSQL server
  redis-rates [--rounds 2]      INCR and SEQD.ID by redis-benchmark, beside Redis with three kinds of log
  locks [--seconds 600] [--seed S]
                                fifty clients on ten locks while nodes are killed, stopped and cut off,
                                leaders moved and clocks set by up to an hour (libfaketime; root, for
                                the cuts)
  lock-queue [--waiters 1000]   so many wait for one lock at three nodes, and a fifth are gone before
                                their turn
  rolling [--rounds 10] [--drain-ms 5000] [--check-ms 1000]
                                every node restarted under load, behind a balancer that checks the health
                                port so often: no request may fail (haproxy)
  catch-up [--mib 200] [--mbit 12] [--rate 500]
                                a follower comes back behind a slow cable, under load (root)
  failover [--runs 20] [--nodes 3] [--loss killed|stopped|cut|silent]
                                from the loss of the leader to the next acknowledged value (root)
  generators [--generators 10000] [--seconds 30] [--kill-every 20]
                                10 to 10000 generators outside the cluster while leaders are killed, and
                                1000 that start at one moment
  hostile [--seconds 60] [--descriptors 1024|65536]
                                one node of three attacked at both ports, the others under load, for
                                so long with each number of open files
  tenants [--seconds 600] [--addresses 1|100] [--without-tokens] [--with BINARY]
          [--means Wait,Flood]  an honest tenant at 200 operations a second, undisturbed for 30 s, then beside
          [--seed S]            a hostile one that uses every means (or these) at once, from so many addresses
  disk [--seconds 1800] [--disk-mb 1024] [--fs ext4|xfs|tmpfs] [--limits shipped|raised] [--with BINARY]
                                a small disk at each node, filled by clients, and room made again (root)
  keys [--keys 10000] [--seed S]
                                eight callers race for each key while nodes are killed, stopped and
                                cut off (root, for the cuts)
  keyed-allocation [--calls 1000000] [--connections 256] [--seed S]
                                requests with an Idempotency-Key, each repeated at another node, while
                                nodes are killed and stopped
  expiry [--keys 1000000] [--rate 2500] [--idle]
                                keys that end at one moment: latency beside it, memory, snapshots; --rate:
                                begins a second that are counted on; --idle: no load while they end
  fsync-delay [--delay-ms 30]   an answer waits for a quorum's disks and for no more (strace)
  group-commit [--clients 64]   acknowledgements per fdatasync of the leader (strace)
  power-cuts [--fs xfs|ext4] [--cuts 300] [--all-every 3] [--lie]
                                power cuts on loopback file systems (root); --lie: nothing is
                                ever synced, and the run must fail (eatmydata)
  members                       members added, removed and replaced under load, with TLS and tokens
  model [--scene NAME] [--threads 2]
                                every order of events in small worlds, with larger bounds than in the
                                tests
  restore [--ids 10000000]      a cluster restored, another recovered; so many further IDs on
                                every layout, none of which repeats
  endurance [--minutes 10]      full write load: disk use and memory level off
  scale [--records 2000000]     snapshot, learner and start with a large state
  growth [--out growth] [--seconds 3]
                                rates and memory by sequences, connections, nodes and threads, as plots
  bench [--seconds 5]           rates against a bare axum handler and a bare fdatasync loop
  workers [--with BINARY] [--seconds 10]
                                one worker of a node at its limit, its processor time, and four;
                                with another build's figures beside
  compare --with BINARY [--rounds 30]
                                rates of this build and of another one, in alternating slices
  compare --tls [--rounds 30]   rates with TLS at both ports and without, in the same way";

type Run = fn(&mut Arguments) -> Result<(), Violation>;

/// The runs by their commands. Commands for a process that another run starts are not in the usage.
const RUNS: [(&str, Run); 37] = [
    ("ids", |arguments| {
        ids::run(arguments.number("--count", 10_000_000))
    }),
    ("strict", |arguments| {
        values(arguments, ValueRun::new("strict", 5, 5_000))
    }),
    ("ordered", |arguments| {
        values(arguments, ValueRun::new("ordered", 20, 20_000))
    }),
    ("segments", |arguments| {
        segments::run(arguments.number("--draws", 5_000_000))
    }),
    ("chaos", |arguments| {
        chaos::run(arguments.number("--seconds", 120))
    }),
    ("failover", |arguments| failover::run(arguments)),
    ("fsync-delay", |arguments| {
        fsync_delay::run(arguments.number("--delay-ms", 30))
    }),
    ("group-commit", |arguments| {
        group_commit::run(arguments.number("--clients", 64))
    }),
    ("catch-up", |arguments| catch_up::run(arguments)),
    ("clocks", clocks::run),
    ("generators", |arguments| generators::run(arguments)),
    ("hostile", |arguments| hostile::run(arguments)),
    ("hostile-attack", |arguments| hostile::attack(arguments)),
    ("disk", |arguments| disk::run(arguments)),
    ("tenants", |arguments| tenants::run(arguments)),
    ("tenants-attack", |arguments| tenants::attack(arguments)),
    ("links", |arguments| links::run(arguments)),
    ("rolling", |arguments| rolling::run(arguments)),
    ("lock-cycles", |arguments| {
        lock_cycles::run(arguments.number("--seconds", 5))
    }),
    ("like-postgres", |arguments| {
        like_postgres(arguments.number("--definitions", 10_000))
    }),
    ("redis-rates", |arguments| {
        redis_rates::run(arguments.number("--rounds", 2))
    }),
    ("locks", |arguments| locks::run(arguments)),
    ("lock-queue", |arguments| locks::queue(arguments)),
    ("keys", |arguments| keys::run(arguments)),
    ("keyed-allocation", |arguments| {
        keys::keyed_allocation(arguments)
    }),
    ("expiry", |arguments| expiry::run(arguments)),
    ("members", |_| members::run()),
    ("model", |arguments| model::run(arguments)),
    ("bench", |arguments| {
        bench::run(arguments.number("--seconds", 5))
    }),
    ("growth", |arguments| growth::run(arguments)),
    ("workers", |arguments| workers::run(arguments)),
    ("compare", |arguments| compare::run(arguments)),
    ("power-cuts", |arguments| power_cuts::run(arguments)),
    ("restore", |arguments| {
        takeover::takeovers(arguments.number("--ids", 10_000_000))
    }),
    ("endurance", |arguments| {
        endurance::run(arguments.number("--minutes", 10))
    }),
    ("scale", |arguments| {
        scale::run(arguments.number("--records", 2_000_000))
    }),
    ("bare-axum", |_| bare::serve()),
];

fn values(arguments: &Arguments, shipped: ValueRun) -> Result<(), Violation> {
    arguments.allow("--kills --between --clients");
    values_while_leaders_are_killed(&ValueRun {
        kills: arguments.value("--kills", shipped.kills),
        between: arguments.value("--between", shipped.between),
        clients: arguments.value("--clients", shipped.clients),
        ..shipped
    })
}

fn like_postgres(definitions: u64) -> Result<(), Violation> {
    let mut random = Random::of_this_run("like-postgres");
    let (cluster, postgres) = (Cluster::started(1), Postgres::start());
    let mut report = Report::default();
    compared(&cluster, &postgres, &mut random, definitions as usize).judge(&mut report);
    report.verdict()
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_environment();
    let command = arguments.command();
    let Some((_, run)) = RUNS.iter().find(|(name, _)| *name == command) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&mut arguments) {
        Ok(()) => {
            println!("{command}: PASSED");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{command}: FAILED: {violation}");
            ExitCode::FAILURE
        }
    }
}
