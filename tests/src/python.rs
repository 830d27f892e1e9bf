//! The Python examples in docs/examples.

use std::process::{Command, Stdio};

use crate::binary::workspace;
use crate::skips;

/// The reason why Python is not available. `None` if it is.
pub fn missing() -> Option<String> {
    let version = Command::new("python3").arg("--version").output();
    let runs = version.is_ok_and(|output| output.status.success());
    (!runs).then(|| skips::missing("python3", "python3"))
}

/// A command that runs an example, without arguments yet.
pub fn example(file: &str) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(workspace().join("docs/examples").join(file))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}
