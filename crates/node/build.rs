//! Passes the revision that the program is built from to the compiler as `SEQD_REVISION`: an
//! environment variable of that name or else the revision that git reports.

use std::process::Command;

const VARIABLE: &str = "SEQD_REVISION";

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    if let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env={VARIABLE}={revision}");
    }
}
