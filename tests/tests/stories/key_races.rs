//! Short runs of `soak keys` and `soak keyed-allocation`: races for keys, and repeated requests
//! with a key, while nodes are killed and stopped.

use seqd_tests::key_load::KeyLoad;
use seqd_tests::keyed_calls::KeyedLoad;
use seqd_tests::seed::Random;

#[test]
fn one_caller_at_a_time_works_on_each_of_many_keys_while_nodes_die() {
    let mut random = Random::of_this_run("races for keys");
    let load = KeyLoad {
        keys: 120,
        lanes: 12,
        seed: random.next_u64(),
    };
    load.under_faults(random, false).unwrap();
}

#[test]
fn requests_with_keys_are_given_as_many_results_as_keys_while_nodes_die() {
    let mut random = Random::of_this_run("requests with keys");
    let load = KeyedLoad {
        calls: 6_000,
        connections: 16,
        seed: random.next_u64(),
    };
    load.under_faults(random).unwrap();
}
