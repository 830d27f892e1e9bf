//! Real threads on one generator with one unsteady clock. loom tests two threads exhaustively
//! inside the crate; this test has more threads, more IDs, and the races of the processor.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use seqd_idgen::{Generator, Layout, Mint, Tick, WallMs, WorkerId};

#[test]
fn threads_on_a_strobing_clock_never_share_an_id() {
    const START_MS: u64 = 1_800_000_000_000;
    let layout = Layout::preset("default").unwrap();
    let from = layout.tick_at(WallMs(START_MS)).unwrap();
    let fence = Tick(from.0 + 30_000);
    let generator = Generator::new(layout.clone(), WorkerId(9), from, fence, 0).unwrap();
    let readings = AtomicU64::new(0);
    let work = || {
        let mut ids = Vec::new();
        while ids.len() < 50_000 {
            // Every reading advances the clock. Every eighth reading is up to 7 ms behind.
            let reading = readings.fetch_add(1, Ordering::Relaxed);
            let back = if reading.is_multiple_of(8) {
                reading % 7
            } else {
                0
            };
            let now = WallMs(START_MS + (reading / 64).saturating_sub(back));
            if let Mint::Ready(run) = generator.mint(now, 1 + (reading % 50) as u32) {
                ids.extend(run.iter().map(|id| id.get()));
            }
        }
        ids
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    for ids in &all {
        assert!(ids.is_sorted_by(|a, b| a < b), "each thread's IDs increase");
    }
    let distinct: BTreeSet<_> = all.iter().flatten().collect();
    assert_eq!(distinct.len(), all.iter().map(Vec::len).sum::<usize>());
    let greatest = layout.unpack(seqd_idgen::SnowflakeId::from_u64(
        **distinct.last().unwrap(),
    ));
    assert_eq!(generator.close(), Some(greatest.unwrap().tick));
}
