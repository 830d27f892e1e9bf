//! Stories that cannot run where they are: each skip is one line that `.ci/run` counts.

use std::io::Write as _;

/// Whether a story ends here because of `why`, the reason that something is not to be had.
///
/// The line goes past the test runner, which hides the output of a test that passed.
pub fn ends(story: &str, why: Option<String>) -> bool {
    if let Some(why) = &why {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a run");
        let line = format!("\nskipped: {test} ({story}): {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    why.is_some()
}

/// The reason of a story that a package would mend. `.ci/run` knows it by these words.
pub fn missing(program: &str, package: &str) -> String {
    format!("{program} is missing (apt-get install {package})")
}
