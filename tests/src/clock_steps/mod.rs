//! Clocks that are set again and again, on three real nodes under a load of IDs.
//!
//! Each node has a clock of its own (see [`crate::clock`]), which is set by a millisecond to ten days,
//! strobed, made to drift and stopped, that of the leader most often; processes are killed and stopped
//! meanwhile. What is judged, over all that was answered:
//!
//! - no ID twice, in any layout, by nodes and by generators outside;
//! - a worker's IDs increase; an ID's time is never that of a wrong clock;
//! - what is refused is refused with one of a few codes, and a process that runs answers;
//! - while a majority of the clocks is right a node whose clock is right stops for [`LONGEST_STOP`] at
//!   most, and a generator too;
//! - a node serves again within [`RETURNED`] of its clock being right, and within [`RESTARTED`] where
//!   its process was started meanwhile.
//!
//! In most phases one clock is wrong. In phases named `TwoApart` two are, each in another way: nobody
//! can say which is right, and all may refuse. In those named `TwoTogether` two agree, up to three
//! seconds from the third: they are the majority, and what they made ahead of time is waited for.
//!
//! From below: [`draws`] and [`duty`], which start nothing; [`streams`], who asks; `driver`, who sets
//! the clocks; `phases`; `judge`.

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

/// The window of the clusters: short, so that each is extended every two seconds and a stop of that
/// shows soon.
pub const WINDOW: Duration = Duration::from_secs(6);

/// How long a node whose clock is right may go without giving IDs, while a majority of the clocks is.
pub const LONGEST_STOP: Duration = Duration::from_secs(5);

/// How long a node whose clock is right again may take to serve. It made no IDs ahead of time by more
/// than the tolerated skew, but where two clocks were wrong together.
pub const RETURNED: Duration = Duration::from_secs(5);

/// The same after a start: the mark of a process that was killed with a clock ahead reaches to the end
/// of its window, which is waited for, and a layout's longest tick; then the start itself.
pub const RESTARTED: Duration = Duration::from_secs(16);

/// How soon a wrong clock is named by the other nodes, and another leads.
pub const NOTICED: Duration = Duration::from_secs(5);

/// Between two lines about how far a run is.
const PROGRESS: Duration = Duration::from_secs(60);

/// The preset layouts that are asked for, beside an own one of one-second ticks.
const PRESETS: [&str; 3] = ["default", "js53", "sonyflake"];

/// One run.
#[derive(Debug)]
pub struct ClockSteps {
    /// How many times clocks are set, at least: a round of all kinds of phases is finished.
    pub steps: u64,
    /// Whether rounds are short.
    pub is_short: bool,
}

impl ClockSteps {
    /// Runs it; `None` where no clock can be set.
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

/// Waits until every stream was answered again; one that is not is late, which the verdict finds.
fn all_serve(driver: &mut Driver) {
    let before = driver.shared.answers();
    wait::within(RESTARTED + LONGEST_STOP, || {
        let answers = driver.shared.answers();
        let mut counts = answers.iter().zip(&before);
        counts.all(|(now, before)| *now > before + 1).then_some(())
    });
}

/// The layouts that are asked for.
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
