//! Strict sequences have the values of PostgreSQL's.

use seqd_tests::cluster::Cluster;
use seqd_tests::like_postgres::compared;
use seqd_tests::postgres::{self, Postgres};
use seqd_tests::report::Report;
use seqd_tests::seed::Random;
use seqd_tests::skips;

/// Random definitions.
const DEFINITIONS: usize = 400;

#[test]
fn a_definition_has_the_values_and_the_end_that_it_has_in_postgresql() {
    if skips::ends("PostgreSQL", postgres::missing()) {
        return;
    }
    let (cluster, postgres) = (Cluster::started(1), Postgres::start());
    let mut random = Random::of_this_run("like_postgres");
    let mut report = Report::default();
    compared(&cluster, &postgres, &mut random, DEFINITIONS).judge(&mut report);
    report.verdict().unwrap();
}
