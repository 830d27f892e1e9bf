//! The peaks of memory and disk of each node of a cluster during a run, and the nodes that ended.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::cluster::Cluster;
use crate::disk_use::DiskUse;
use crate::report::Report;
use crate::{memory, wait};

/// Time between two samples: full write load fills some 10 MB of disk in it.
const EVERY: Duration = Duration::from_millis(200);

const MB: u64 = 1_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peaks {
    pub node: String,
    pub memory: u64,
    pub disk: DiskUse,
    /// The time at which the process was first seen to have ended.
    pub ended_after: Option<Duration>,
}

impl fmt::Display for Peaks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node, memory, disk, ..
        } = self;
        write!(
            out,
            "{node}: at most {} MB of memory; {} MB of disk (wal {}, state {}, snap {})",
            memory / MB,
            disk.all / MB,
            disk.wal / MB,
            disk.state / MB,
            disk.snap / MB
        )?;
        match self.ended_after {
            Some(after) => write!(out, "; ENDED after {after:.0?}"),
            None => Ok(()),
        }
    }
}

/// Runs `work`, and samples all nodes of the cluster during it.
pub fn during<T>(cluster: &Cluster, work: impl FnOnce() -> T) -> (T, Vec<Peaks>) {
    let nodes: Vec<(Pid, PathBuf, String)> = (0..cluster.size())
        .map(|index| cluster.node(index))
        .map(|node| (node.pid(), node.data(), node.name().to_owned()))
        .collect();
    let begin = Instant::now();
    let sample = || {
        let samples = nodes.iter().map(|(pid, data, node)| {
            let memory = memory::resident_if_running(*pid);
            Peaks {
                node: node.clone(),
                memory: memory.unwrap_or_default(),
                disk: DiskUse::of(data),
                ended_after: memory.is_none().then(|| begin.elapsed()),
            }
        });
        samples.collect::<Vec<_>>()
    };
    let repeated = || {
        std::thread::sleep(EVERY);
        sample()
    };
    let (result, mut samples) = wait::beside(repeated, work);
    samples.push(sample());
    (result, most(&samples))
}

/// Prints the peaks. Requires that no node ended or used more memory than `most_memory` bytes.
pub fn judge(peaks: &[Peaks], most_memory: u64, report: &mut Report) {
    for peak in peaks {
        println!("  {peak}");
        report.require(peak.ended_after.is_none(), "no node ends", peak.to_string());
        report.require(
            peak.memory <= most_memory,
            "bounded memory",
            peak.to_string(),
        );
    }
}

/// The peaks over all samples, each of which has every node in the same order.
fn most(samples: &[Vec<Peaks>]) -> Vec<Peaks> {
    let mut peaks: Vec<Peaks> = samples.first().cloned().unwrap_or_default();
    for sample in samples {
        for (peak, seen) in peaks.iter_mut().zip(sample) {
            peak.memory = peak.memory.max(seen.memory);
            peak.disk = peak.disk.max(seen.disk);
            peak.ended_after = peak.ended_after.or(seen.ended_after);
        }
    }
    peaks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks(memory: u64, wal: u64, ended_after: Option<Duration>) -> Peaks {
        let disk = DiskUse {
            wal,
            all: wal,
            ..DiskUse::default()
        };
        Peaks {
            node: "n1".to_owned(),
            memory,
            disk,
            ended_after,
        }
    }

    #[test]
    fn peaks_keep_the_most_of_each_and_the_first_end() {
        let (first, later) = (Duration::from_secs(3), Duration::from_secs(4));
        let samples = [
            vec![peaks(7, 1, None)],
            vec![peaks(5, 9, Some(first))],
            vec![peaks(0, 2, Some(later))],
        ];
        assert_eq!(most(&samples), [peaks(7, 9, Some(first))]);
        assert_eq!(most(&[]), []);
    }
}
