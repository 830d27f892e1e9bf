//! Skipped stories: each skip prints one line, which `.ci/run` counts.

use std::io::Write as _;

/// Returns whether a story ends here. `why` is the reason why a prerequisite is missing.
///
/// The line bypasses the test runner, which hides the output of a passed test.
pub fn ends(story: &str, why: Option<String>) -> bool {
    if let Some(why) = &why {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a run");
        let line = format!("\nskipped: {test} ({story}): {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    why.is_some()
}

/// The reason for a skip that a package would fix. `.ci/run` recognises it by these words.
pub fn missing(program: &str, package: &str) -> String {
    format!("{program} is missing (apt-get install {package})")
}
