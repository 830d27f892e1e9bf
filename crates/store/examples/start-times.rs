//! Measures the time of a start with a large state until the rows are in memory, ready to apply.
//!
//! ```console
//! $ cargo run --release -p seqd-store --example start-times -- 2000000
//! ```
//!
//! Each way runs in a separate process, in turns. The minimum of each is printed, since other load
//! of the machine only adds time. `no table`: sled has never been opened since its rows were
//! written, so it reads its whole log. `snapshot`: both files verified and one loaded, without
//! sled. Replaying the log after it, up to `raft.snapshot_every` entries, takes additional time.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::thread;
use std::time::Instant;

use seqd_disk::OsDisk;
use seqd_state::idgen::{Progression, WallMs};
use seqd_state::{
    ClusterCommand, ClusterMs, Command, Entry, Found, NodeId, SegmentSizes, SequenceCommand,
    SequenceDefinition, SequenceMode, SequenceName, Stamp, State, StateLoader,
};
use seqd_store::checkpoint::{Checkpoint, Opened, Place, StateStore, TakeRows, create_empty, open};
use seqd_store::snapshot_file::{self, SnapshotReader};

/// The allocator of the program `seqd`: half of a start is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failed = Box<dyn Error>;

const CLUSTER: &str = "start-times";
const ROUNDS: usize = 5;
const WAYS: [&str; 4] = ["checkpoint", "no table", "one core", "snapshot"];

/// The number of rows that a node under load creates between two checkpoints.
const ROWS_PER_CHECKPOINT: u64 = 500;

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [records] => compare(records.parse()?),
        [way, data_dir] => start(way, Path::new(data_dir)),
        _ => Err("start-times RECORDS".into()),
    }
}

fn compare(records: u64) -> Result<(), Failed> {
    let data_dir = tempfile::tempdir()?;
    build(records, data_dir.path())?;
    let mut least = [[f64::INFINITY; 3]; WAYS.len()];
    for _ in 0..ROUNDS {
        for (way, least) in WAYS.iter().zip(&mut least) {
            let program = std::env::current_exe()?;
            let ended = Process::new(program)
                .arg(way)
                .arg(data_dir.path())
                .output()?;
            let printed = String::from_utf8(ended.stdout)?;
            for (least, figure) in least.iter_mut().zip(printed.split_whitespace()) {
                *least = least.min(figure.parse()?);
            }
        }
    }
    println!("{records} records");
    for (way, [wall, cpu, memory]) in WAYS.iter().zip(least) {
        println!("{way:<12} {wall:6.2} s, {cpu:6.2} s of CPU, {memory:5.0} MiB");
    }
    Ok(())
}

/// Performs one start. Prints seconds, CPU seconds, and the peak memory in MiB.
fn start(way: &str, data_dir: &Path) -> Result<(), Failed> {
    let (place, snapshots) = (Place::on_sled(data_dir, CLUSTER), data_dir.join("snap"));
    if way == "no table" {
        for file in fs::read_dir(data_dir.join("state-1"))? {
            let path = file?.path();
            if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("snap."))
            {
                fs::remove_file(path)?;
            }
        }
    }
    let (began, cpu_before) = (Instant::now(), cpu()?);
    let verify = || snapshot_file::recover(&OsDisk, &snapshots, CLUSTER);
    let state = match way {
        "snapshot" => {
            let kept = verify()?.valid;
            let newest = kept.first().ok_or("no snapshot")?;
            let mut loader = StateLoader::default();
            let rows = SnapshotReader::open(&OsDisk, &newest.path)?.rows();
            rows.visit(&mut |key, value| TakeRows::row(&mut loader, key, value))?;
            loader.finish()
        }
        "one core" => {
            verify()?;
            opened(&place)?
        }
        _ => thread::scope(|scope| {
            let verified = scope.spawn(verify);
            let state = opened(&place);
            verified.join().map_err(|_| "verifying panicked")??;
            state
        })?,
    };
    let took = began.elapsed().as_secs_f64();
    let most = procfs::process::Process::myself()?
        .status()?
        .vmhwm
        .ok_or("no VmHWM")?;
    println!("{took} {} {}", cpu()? - cpu_before, most >> 10);
    // Freeing a large state is not part of a start.
    std::mem::forget(state);
    Ok(())
}

fn opened(place: &Place) -> Result<State, Failed> {
    match open::<StateLoader>(place, false)? {
        Opened::Good { rows, .. } => Ok(rows.finish()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Returns the CPU seconds used by this process. Linux counts them in hundredths.
fn cpu() -> Result<f64, Failed> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let (user, system) = (11, 12);
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = |field: usize| {
        fields
            .get(field)
            .ok_or("no such field")?
            .parse::<f64>()
            .map_err(Failed::from)
    };
    Ok((ticks(user)? + ticks(system)?) / 100.0)
}

/// Fills a folder as a node does: checkpoint by checkpoint, in no order of names. Then writes two
/// snapshots.
fn build(records: u64, data_dir: &Path) -> Result<(), Failed> {
    let place = Place::on_sled(data_dir, CLUSTER);
    let mut store = create_empty(&place)?;
    let mut state = State::new();
    let mut index = 0;
    let mut checkpoint = |state: &mut State, store: &mut dyn StateStore| {
        index += 1;
        let changes = state.drain_changes();
        let position = Checkpoint {
            index,
            log_id: vec![1],
            membership: vec![2],
            digest: changes.digest.0,
        };
        store.write(changes.rows, &position)
    };
    apply(
        &mut state,
        Command::Cluster(ClusterCommand::Found(Found {
            cluster_id: CLUSTER.to_owned(),
            window_ms: 30_000,
            max_peer_skew_ms: 500,
            founders: vec![(NodeId(1), "n1".to_owned())],
        })),
    );
    for number in 0..records {
        // An odd multiplier varies lengths and order deterministically.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = format!("s{mixed:x}.{}", "n".repeat((mixed % 41) as usize));
        let definition = SequenceDefinition {
            mode: SequenceMode::Segment,
            progression: Progression::with_defaults(None, None, None, None, false)?,
            segment: SegmentSizes {
                target_ms: 60_000,
                min: 10,
                max: 1_000,
            },
            description: "d".repeat((mixed >> 8) as usize % 160),
        };
        let name = SequenceName::new(name)?;
        apply(
            &mut state,
            Command::Sequences(SequenceCommand::Create {
                tenant: seqd_state::Tenant::OPERATOR,
                name,
                definition,
            }),
        );
        if number % ROWS_PER_CHECKPOINT == 0 {
            checkpoint(&mut state, &mut *store)?;
        }
    }
    checkpoint(&mut state, &mut *store)?;
    let snapshots = data_dir.join("snap");
    fs::create_dir(&snapshots)?;
    for term in [1, 2] {
        snapshot_file::take(&*store, &place.disk, &snapshots, CLUSTER, term, &mut || {
            Ok(())
        })?
        .finish()?;
    }
    Ok(store.close()?)
}

fn apply(state: &mut State, command: Command) {
    let stamp = Stamp {
        wall_ms: WallMs(1_800_000_000_000),
        cluster_ms: ClusterMs(1),
    };
    let commands = vec![command];
    state.apply(&Entry { stamp, commands }, None);
}
