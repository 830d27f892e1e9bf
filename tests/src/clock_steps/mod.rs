//! Clocks that are set repeatedly on three real nodes under a load of IDs.
//!
//! Each node has its own clock (see [`crate::clock`]), which is set by a millisecond to ten days,
//! strobed, made to drift, and stopped; the leader's clock most often. In the meantime processes
//! are killed and stopped. The verdict covers all responses:
//!
//! - no ID occurs twice, in any layout, from nodes and from external generators;
//! - a worker's IDs increase, and an ID's time is never that of a wrong clock;
//! - every refusal has one of a few codes, and a running process answers;
//! - while a majority of the clocks is right, a node whose clock is right pauses for at most
//!   [`LONGEST_STOP`], and so does a generator;
//! - a node serves again within [`RETURNED`] after its clock is right, and within [`RESTARTED`] if
//!   its process was started in the meantime.
//!
//! In most phases one clock is wrong. In the phases `TwoApart` two clocks are wrong in different
//! ways: nobody can determine the right one, and all nodes may refuse. In the phases `TwoTogether`
//! two clocks agree, up to three seconds from the third: they are the majority, and all nodes wait
//! for the IDs that they minted ahead of time.
//!
//! From the bottom up: [`draws`] and [`duty`], which start nothing; [`streams`], which send the
//! requests; `member`; `driver`, which sets the clocks; `phases`; [`figures`].

pub mod draws;
mod driver;
pub mod duty;
pub mod figures;
mod member;
pub mod notice;
mod phases;
pub mod streams;

use std::time::{Duration, Instant};

use seqd_client::api::CreateLayout;
use seqd_client::idgen::Layout;
use seqd_client::{Client, layout_of};
use tokio::runtime::Runtime;

use crate::checkers::Violation;
use crate::clock::ShiftedClock;
use crate::cluster::Cluster;
use crate::generators;
use crate::history::Timeline;
use crate::seed::Random;
use crate::wait;
use driver::Driver;
pub use figures::Figures;
use member::Member;
use streams::Streams;

/// The window of the clusters. It is short, so that each window is extended every two seconds and a
/// failed extension shows soon.
pub const WINDOW: Duration = Duration::from_secs(6);

/// The longest time that a node whose clock is right may be without IDs while a majority of the
/// clocks is right.
pub const LONGEST_STOP: Duration = Duration::from_secs(5);

/// The longest time that a node may take to serve after its clock is right again. It minted no IDs
/// further ahead of time than the tolerated skew, except if two clocks were wrong together.
pub const RETURNED: Duration = Duration::from_secs(5);

/// The same after a start. The stored last tick of a process that was killed with a clock ahead
/// reaches to the end of its window, so the node waits for it and for the longest tick of a layout;
/// the start itself follows.
pub const RESTARTED: Duration = Duration::from_secs(16);

/// The longest time until the other nodes name a wrong clock and another node leads.
pub const NOTICED: Duration = Duration::from_secs(5);

/// The interval between two progress lines of a run.
const PROGRESS: Duration = Duration::from_secs(60);

/// The preset layouts of the load. A created layout has one-second ticks.
const PRESETS: [&str; 3] = ["default", "js53", "sonyflake"];

/// One run.
#[derive(Debug)]
pub struct ClockSteps {
    /// The smallest number of clock settings. A round of all kinds of phases is always finished.
    pub steps: u64,
    /// `true` if rounds are short.
    pub is_short: bool,
}

impl ClockSteps {
    /// Runs the test. `None` if clocks cannot be set here.
    pub fn judged(&self, random: Random) -> Option<(Figures, Result<(), Violation>)> {
        let window = format!("\"{}s\"", WINDOW.as_secs());
        let mut cluster = Cluster::planned(3).with("clock", "window", &window);
        let folder = cluster.folder().to_path_buf();
        let mut clocks = Vec::new();
        for node in 0..3 {
            clocks.push(ShiftedClock::for_node(cluster.node_mut(node), &folder)?);
        }
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
        let members = clocks.into_iter().map(|clock| Member::new(clock, began));
        let members = members.collect();
        let mut driver = Driver::new(cluster, members, (timeline, random), shared, self.is_short);
        all_serve(&mut driver);
        let bitten = self.drive(&mut driver);
        all_serve(&mut driver);
        let told = streams.finish(&runtime);
        let (figures, verdict) = figures::judged(driver, told);
        Some((figures, verdict.and(bitten)))
    }

    fn drive(&self, driver: &mut Driver) -> Result<(), Violation> {
        let mut progress = Instant::now();
        while driver.faults.steps < self.steps {
            for kind in draws::round(&mut driver.random, self.is_short) {
                driver.phase(kind)?;
                if driver.shared.is_violated() {
                    return Ok(());
                }
                if progress.elapsed() > PROGRESS {
                    println!("{} steps", driver.faults.steps);
                    progress = Instant::now();
                }
            }
        }
        Ok(())
    }
}

/// Waits until every stream has received new responses. A stream without one is late, which the
/// verdict detects.
fn all_serve(driver: &mut Driver) {
    let before = driver.shared.answers();
    wait::within(RESTARTED + LONGEST_STOP, || {
        let answers = driver.shared.answers();
        let mut counts = answers.iter().zip(&before);
        counts.all(|(now, before)| *now > before + 1).then_some(())
    });
}

/// The layouts of the load.
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
