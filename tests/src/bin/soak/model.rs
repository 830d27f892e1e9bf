//! The model check with larger bounds than in the tests: each scene as it is, and with one
//! additional event of each kind.

use std::time::Instant;

use seqd_tests::checkers::Violation;
use seqd_tests::model::{Check, Scene, scenes};

use crate::arguments::Arguments;

pub(crate) fn run(arguments: &Arguments) -> Result<(), Violation> {
    arguments.allow("--scene --threads");
    let threads = arguments.value("--threads", 2);
    let asked = arguments.text("--scene");
    let began = Instant::now();
    let (mut checks, mut states) = (0, 0);
    for scene in scenes() {
        if asked.is_some_and(|name| name != scene.name) {
            continue;
        }
        let larger = scene.larger().into_iter();
        let larger = larger.map(|(kind, scene)| (format!(", one more of {kind}"), scene));
        for (more, scene) in [(String::new(), scene.clone())].into_iter().chain(larger) {
            states += explore(&more, scene, threads)?;
            checks += 1;
        }
    }
    assert!(checks > 0, "no scene has this name: {asked:?}");
    let seconds = began.elapsed().as_secs_f64();
    println!("{checks} checks, {states} unique states, {seconds:.0} s");
    Ok(())
}

fn explore(more: &str, scene: Scene, threads: usize) -> Result<usize, Violation> {
    let name = scene.name;
    let found = Check::new(scene, None).run(threads);
    println!("{name}{more}: {found}");
    if let Some(counterexample) = found.violation {
        let rule = counterexample.violation.rule();
        return Err(Violation::new(rule, counterexample.events.join("\n")));
    }
    let unseen: Vec<&str> = found.unseen.iter().map(|sight| sight.words()).collect();
    assert!(unseen.is_empty(), "{name} does not come to: {unseen:?}");
    Ok(found.unique)
}
