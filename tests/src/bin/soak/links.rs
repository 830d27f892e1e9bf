//! Each fault of the links alone, on three and on five nodes, under a mixed load.

use std::time::Duration;

use seqd_tests::checkers::Violation;
use seqd_tests::link_faults::{BESIDE, FAULTS, LinkFault};
use seqd_tests::link_runs::LinkRun;
use seqd_tests::links;
use seqd_tests::report::Report;

use crate::arguments::Arguments;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--seconds --nodes --fault");
    if let Some(why) = links::unavailable() {
        return Err(Violation::new("links", why));
    }
    let length = Duration::from_secs(arguments.value("--seconds", 60));
    let sizes = match arguments.value("--nodes", 0) {
        0 => vec![3, 5],
        nodes => vec![nodes],
    };
    let faults: Vec<LinkFault> = match arguments.text("--fault") {
        None => FAULTS.into_iter().chain(BESIDE).collect(),
        Some(name) => {
            let known = || panic!("no fault {name}; there are {:?}", FAULTS.map(|f| f.name));
            vec![LinkFault::named(name).unwrap_or_else(known)]
        }
    };
    let mut report = Report::default();
    for nodes in sizes {
        for fault in &faults {
            let run = LinkRun {
                nodes,
                fault: *fault,
                length,
                is_patient: false,
            };
            report.checked(run.judged());
        }
    }
    report.verdict()
}
