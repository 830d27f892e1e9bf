//! Races for ten thousand keys while nodes are killed, stopped and cut off, and a million requests
//! with a key, each repeated.

use seqd_tests::checkers::Violation;
use seqd_tests::key_load::KeyLoad;
use seqd_tests::keyed_calls::KeyedLoad;

use crate::arguments::Arguments;

/// The number of concurrent keys: with eight callers each, the most that two cores can run next to
/// three nodes.
const LANES: usize = 48;

/// The number of concurrent calls, enough for many calls per round of consensus.
const CONNECTIONS: usize = 256;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--keys --seed");
    let mut random = arguments.random("keys");
    let load = KeyLoad {
        keys: arguments.value("--keys", 10_000),
        lanes: LANES,
        seed: random.next_u64(),
    };
    load.under_faults(random, true)
}

pub(crate) fn keyed_allocation(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--calls --connections --seed");
    let mut random = arguments.random("keyed-allocation");
    let load = KeyedLoad {
        calls: arguments.value("--calls", 1_000_000),
        connections: arguments.value("--connections", CONNECTIONS),
        seed: random.next_u64(),
    };
    load.under_faults(random)
}
