//! Clocks that are set repeatedly, on three real nodes under a load of IDs.
//!
//! Each node has a clock of its own (see [`crate::clock`]), which is set by a millisecond to ten
//! days, strobed, made to drift and stopped, the leader's most often. Processes are killed and
//! stopped meanwhile. The run checks over all responses:
//!
//! - No ID occurs twice, in any layout, from nodes and from generators outside.
//! - A worker's IDs increase, and an ID's time is never that of a wrong clock.
//! - A refusal has one of a few codes, and a running process answers.
//! - While a majority of the clocks is right, a node with a right clock stops for [`LONGEST_STOP`]
//!   at most, and so does a generator.
//! - A node serves again within [`RETURNED`] after its clock is right, and within [`RESTARTED`] if
//!   its process was started meanwhile.
//!
//! In most phases one clock is wrong. In `TwoApart` phases two are wrong by different offsets: no
//! node can determine which clock is right, and all may refuse. In `TwoTogether` phases two clocks
//! agree, up to three seconds from the third: they are the majority, and all nodes wait for the
//! time of IDs that they made ahead of time.
//!
//! From the lowest layer: [`draws`] and [`duty`], which start nothing; [`streams`], the requests;
//! `driver`, which sets the clocks; `phases`; `judge`.

pub mod draws;
mod driver;
pub mod duty;
mod judge;
pub mod notice;
mod phases;
pub mod streams;

use std::time::{Duration, Instant};

use seqd_client::api::CreateLayout;
use seqd_client::idgen::Layout;
use seqd_client::{Client, layout_of};
use tokio::runtime::Runtime;

use crate::checkers::Violation;
use crate::clock::Clocks;
use crate::cluster::Cluster;
use crate::generators;
use crate::history::Timeline;
use crate::report::Report;
use crate::seed::Random;
use crate::wait;
use driver::Driver;
use streams::Streams;

/// The window of the clusters: short, so that each window is extended every two seconds, and a
/// failure to extend it shows soon.
pub const WINDOW: Duration = Duration::from_secs(6);

/// The longest time without IDs of a node with a right clock, while a majority of the clocks is
/// right.
pub const LONGEST_STOP: Duration = Duration::from_secs(5);

/// The time limit for IDs of a node after its clock is right again. It made IDs ahead of time by no
/// more than the tolerated skew, except if two clocks were wrong together.
pub const RETURNED: Duration = Duration::from_secs(5);

/// Like [`RETURNED`], after a start. The mark of a process that was killed with its clock ahead
/// reaches to the end of its window. The node waits for that and for a layout's longest tick, and
/// the start itself takes time.
pub const RESTARTED: Duration = Duration::from_secs(16);

/// The time limit for the other nodes to name a wrong clock, and for another node to lead.
pub const NOTICED: Duration = Duration::from_secs(5);

/// The interval of the lines about the progress of a run.
const PROGRESS: Duration = Duration::from_secs(60);

/// The preset layouts of the requests, in addition to an own one with ticks of one second.
const PRESETS: [&str; 3] = ["default", "js53", "sonyflake"];

#[derive(Debug)]
pub struct ClockSteps {
    /// The least number of steps. The last round of all kinds of phases is finished.
    pub steps: u64,
    /// True if rounds are short.
    pub is_short: bool,
}

impl ClockSteps {
    /// Runs it. Returns `None` if clocks cannot be set here.
    pub fn judged(&self, random: Random) -> Option<Result<(), Violation>> {
        let window = format!("\"{}s\"", WINDOW.as_secs());
        let mut cluster = Cluster::planned(3).with("clock", "window", &window);
        let clocks = Clocks::of(&mut cluster)?;
        cluster.start_all();
        let began = Instant::now();
        cluster.wait_ready();
        let runtime = generators::runtime();
        let addresses = cluster.addresses();
        let clients: Vec<Client> = (0..3)
            .map(|number| generators::rotated(&addresses, number))
            .collect();
        let layouts = layouts(&runtime, &clients[0]);
        let timeline = Timeline::begin();
        let outside = clients.into_iter().zip(layouts.clone()).collect();
        let urls = cluster.urls();
        let streams = Streams::begin(timeline, &urls, &layouts, &runtime, outside);
        let shared = streams.shared.clone();
        let (clocks, drawn) = ((clocks, began), (timeline, random));
        let mut driver = Driver::new(cluster, clocks, drawn, shared, self.is_short);
        all_serve(&mut driver);
        let bitten = self.drive(&mut driver);
        all_serve(&mut driver);
        let told = streams.finish(&runtime);
        let mut report = Report::default();
        judge::judge(&driver, told, &mut report);
        report.checked(bitten);
        Some(report.verdict())
    }

    fn drive(&self, driver: &mut Driver) -> Result<(), Violation> {
        let mut progress = Instant::now();
        while driver.clocks.steps < self.steps {
            for kind in draws::round(&mut driver.random, self.is_short) {
                driver.phase(kind)?;
                if driver.shared.is_violated() {
                    return Ok(());
                }
                if progress.elapsed() > PROGRESS {
                    println!("{} steps", driver.clocks.steps);
                    progress = Instant::now();
                }
            }
        }
        Ok(())
    }
}

/// Waits until every stream received IDs again. A stream that does not is late, which the verdict
/// finds.
fn all_serve(driver: &mut Driver) {
    let before = driver.shared.answers();
    wait::within(RESTARTED + LONGEST_STOP, || {
        let answers = driver.shared.answers();
        let mut counts = answers.iter().zip(&before);
        counts.all(|(now, before)| *now > before + 1).then_some(())
    });
}

/// The layouts of the requests.
fn layouts(runtime: &Runtime, client: &Client) -> Vec<Layout> {
    let presets = PRESETS.map(|name| Layout::preset(name).expect("a preset"));
    let own = CreateLayout {
        name: Some("seconds".to_owned()),
        tick_ms: Some(1000),
        worker_bits: Some(8),
        ..CreateLayout::default()
    };
    let created = runtime.block_on(client.create_layout(&own));
    let (_, own) = created.expect("a layout of one-second ticks");
    let own = layout_of(&own).expect("a layout that is known");
    presets.into_iter().chain([own]).collect()
}
