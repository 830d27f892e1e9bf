//! A wall clock of one node that a story can shift: libfaketime, and a file with the offset.
//!
//! The monotonic clock stays correct, since tokio's timers would stop otherwise. If the library is
//! not installed there is no shifted clock, and the story prints that. The rules are then tested
//! only by the stories of the node crate, which replace the clock port.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checkers::{Violation, require};
use crate::cluster::Cluster;
use crate::faults::FAULT_WITHOUT_EFFECT;
use crate::node::Node;
use crate::seed::Random;
use crate::{skips, wait};

/// Debian's path (package `faketime`); the `MT` build is for programs with threads.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

#[derive(Debug)]
pub struct ShiftedClock {
    file: PathBuf,
}

impl ShiftedClock {
    /// Gives the node a clock that begins unshifted, from its next start on. Returns `None`, and
    /// skips the story, if the library is missing.
    pub fn for_node(node: &mut Node, folder: &Path) -> Option<Self> {
        if !Path::new(LIBRARY).exists() {
            skips::ends("a shifted clock", Some(skips::missing(LIBRARY, "faketime")));
            return None;
        }
        let clock = Self {
            file: folder.join(format!("{}.clock", node.name())),
        };
        clock.shift_ms(0);
        node.set_environment("LD_PRELOAD", LIBRARY);
        node.set_environment("FAKETIME_TIMESTAMP_FILE", &clock.file.display().to_string());
        node.set_environment("FAKETIME_NO_CACHE", "1");
        node.set_environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        // A time in calendar form is read as local time.
        node.set_environment("TZ", "UTC");
        Some(clock)
    }

    /// Sets the clock's offset from the true time. The next reading has it.
    pub fn shift_ms(&self, by_ms: i64) {
        // Without a rate libfaketime would keep the rate that was set before.
        self.set(&format!("{} x1", seconds(by_ms)));
    }

    /// Makes the clock, which is correct at this moment, run at this rate from now on. The process
    /// began to run `running` ago: libfaketime counts from there, and the difference that this adds
    /// is subtracted again.
    ///
    /// A rate below 1 delays the timers of the process accordingly.
    pub fn drift(&self, rate: f64, running: Duration) {
        let gained_ms = running.as_secs_f64() * 1000.0 * (rate - 1.0);
        self.set(&format!(
            "{} x{rate:.6}",
            seconds(-gained_ms.round() as i64)
        ));
    }

    /// Stops the clock at this second of Unix time.
    pub fn freeze(&self, second: u64) {
        self.set(&utc(second));
    }

    fn set(&self, text: &str) {
        let aside = self.file.with_extension("new");
        std::fs::write(&aside, format!("{text}\n")).expect("the clock's file");
        std::fs::rename(&aside, &self.file).expect("the clock's file in its place");
    }
}

/// The precision with which another node's view shows a clock: half a round trip of a ping, and the
/// delays of a busy machine.
pub const EXACT_MS: i64 = 30;

/// The clocks of all nodes of a cluster, each set on its own.
#[derive(Debug)]
pub struct Clocks {
    clocks: Vec<ShiftedClock>,
    /// The offset of each clock in ms; positive if it is ahead.
    pub ms: Vec<i64>,
    /// The number of steps, and the largest offset.
    pub steps: u64,
    pub furthest_ms: u64,
}

impl Clocks {
    /// The clocks of planned nodes; `None` if clocks cannot be set here.
    pub fn of(cluster: &mut Cluster) -> Option<Self> {
        let folder = cluster.folder().to_path_buf();
        let nodes = 0..cluster.size();
        let clock = |node| ShiftedClock::for_node(cluster.node_mut(node), &folder);
        let clocks: Vec<_> = nodes.map(clock).collect::<Option<_>>()?;
        Some(Self {
            ms: vec![0; clocks.len()],
            clocks,
            steps: 0,
            furthest_ms: 0,
        })
    }

    pub fn clock(&self, node: usize) -> &ShiftedClock {
        &self.clocks[node]
    }

    pub fn set(&mut self, node: usize, ms: i64) {
        self.clocks[node].shift_ms(ms);
        self.ms[node] = ms;
        self.steps += 1;
        self.furthest_ms = self.furthest_ms.max(ms.unsigned_abs());
    }

    /// The offset of a node's clock from another node's, in ms, in the node's own view.
    pub fn shown_ms(&self, cluster: &Cluster, node: usize, other: usize) -> Option<i64> {
        let member = cluster.member(node, other)?;
        let offset_ms = member["clock_offset_ms"].as_f64()?.round() as i64;
        Some(self.ms[other] - offset_ms)
    }

    /// Waits until a node shows its clock's offset with this precision. Returns an error if it does
    /// not.
    pub fn see(
        &self,
        cluster: &Cluster,
        (node, other): (usize, usize),
        exact_ms: i64,
        within: Duration,
    ) -> Result<(), Violation> {
        let ms = self.ms[node];
        let mut shown = None;
        let seen = wait::within(within, || {
            shown = self.shown_ms(cluster, node, other);
            ((shown? - ms).abs() <= exact_ms).then_some(())
        });
        let detail = format!("n{} shows {shown:?} ms and is set to {ms} ms", node + 1);
        require(seen.is_some(), FAULT_WITHOUT_EFFECT, detail)
    }
}

/// A number of milliseconds, log-uniform between `least` and `most`, with either sign.
pub fn draw_ms(random: &mut Random, least: f64, most: f64) -> i64 {
    let size = (least.ln() + random.share() * (most / least).ln()).exp();
    let ms = size.round() as i64;
    if random.below(2) == 0 { ms } else { -ms }
}

/// An offset as libfaketime reads it.
fn seconds(by_ms: i64) -> String {
    let sign = if by_ms < 0 { '-' } else { '+' };
    let (seconds, rest) = (by_ms.unsigned_abs() / 1000, by_ms.unsigned_abs() % 1000);
    format!("{sign}{seconds}.{rest:03}")
}

/// A second of Unix time as `2026-11-21 02:26:41` (the days: Howard Hinnant's `civil_from_days`).
fn utc(second: u64) -> String {
    let (days, of_day) = (second / 86_400, second % 86_400);
    // Years begin in March, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3600, of_day / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}",
        of_day % 60
    )
}

/// Returns whether a text contains an RFC 3339 time in UTC.
pub fn names_a_time(text: &str) -> bool {
    text.split(|c: char| c.is_whitespace() || "\",".contains(c))
        .any(|word| {
            word.len() >= 20 && word.starts_with("20") && word.contains('T') && word.ends_with('Z')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_unix_time_are_written_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(utc(1_795_470_454), "2026-11-23 21:47:34");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn offsets_are_written_with_their_sign() {
        assert_eq!(seconds(-5), "-0.005");
        assert_eq!(seconds(864_000_001), "+864000.001");
    }
}
