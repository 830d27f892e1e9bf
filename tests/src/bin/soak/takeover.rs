//! A cluster is restored from a backup, then another one is recovered from one folder of three,
//! each with work after the backup. Of millions of further IDs on every layout none may repeat,
//! tokens must increase, and sequences must continue after their floors.

use std::time::Instant;

use seqd_tests::binary::run;
use seqd_tests::checkers::Violation;
use seqd_tests::takeover::Takeover;

/// The number of IDs that each node mints on each layout, once before the backup and once after it.
const BEFORE: u64 = 20_000;

pub(crate) fn takeovers(ids: u64) -> Result<(), Violation> {
    for restores in [true, false] {
        let what = if restores {
            "restore"
        } else {
            "recover-quorum"
        };
        println!("{what}: {ids} further IDs on each layout");
        let begin = Instant::now();
        let mut takeover = Takeover::begin(BEFORE);
        let file = takeover.backup();
        takeover.work(BEFORE);
        takeover.kill_all();
        let folder = if restores {
            let folder = takeover.cluster.folder().join("restored");
            takeover.cluster.node_mut(0).set_data(&folder);
            folder
        } else {
            for lost in [1, 2] {
                let lost = takeover.cluster.node(lost).data();
                std::fs::remove_dir_all(lost).expect("the folder of a node that ended");
            }
            takeover.cluster.node(0).data()
        };
        let folder = folder.display().to_string();
        let mut line = if restores {
            takeover.restore_line(&file, &folder)
        } else {
            ["data", "recover-quorum", "--data-dir", &folder]
                .map(str::to_owned)
                .to_vec()
        };
        // The strict sequence continues after its last entry, or from its floor.
        line.extend(takeover.floor("order"));
        line.extend(takeover.floor("bill"));
        line.push("--yes".to_owned());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = run(&line);
        assert!(output.status.success(), "{line:?}: {output:?}");
        takeover.cluster.node_mut(0).start();
        takeover.go_on(0, &[1, 2], ids.div_ceil(3))?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{what}: nothing repeats, {seconds:.0} s\n");
    }
    Ok(())
}
