//! The `seqd` binary under test. It is located next to the running test, and built once if it is
//! missing or outdated.
//!
//! `CARGO_BIN_EXE_seqd` exists only for tests of the package that owns the binary, so the path
//! follows from the path of the test: `target/<profile>/deps/<test>` or `target/<profile>/<bin>`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::permits;

static BINARY: OnceLock<PathBuf> = OnceLock::new();
static NEXT: OnceLock<PathBuf> = OnceLock::new();

/// The binary of the next version: the same sources, one level higher.
const NEXT_NAME: &str = "seqd-next";

const NEXT_FEATURE: &str = "seqd/test-next-level";

/// If an example is built too, cargo unifies the features of the dependencies as in a build of
/// tests, and reuses the artefacts of that build.
const SMALL_EXAMPLE: &str = "append";

/// The path of the binary: `SEQD_TEST_BINARY` if it is set, otherwise the binary of this test's
/// profile.
pub fn seqd() -> &'static Path {
    BINARY.get_or_init(|| match std::env::var_os("SEQD_TEST_BINARY") {
        Some(path) => PathBuf::from(path),
        None => build("seqd", None),
    })
}

pub fn seqd_next() -> &'static Path {
    NEXT.get_or_init(|| {
        let _alone = permits::alone();
        build(NEXT_NAME, Some(NEXT_FEATURE))
    })
}

pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .expect("tests/ lies in the workspace")
        .to_path_buf()
}

/// A command that runs the binary under test, without the `SEQD_` variables of the environment.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(seqd());
    remove_variables(&mut command);
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().expect("seqd runs")
}

/// Runs a command and kills it as soon as its stderr has this line. Returns whether the line
/// appeared; without it, the command has ended by itself.
pub fn kill_at_line(mut command: Command, line: &str) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("seqd runs");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let found = lines.map_while(Result::ok).any(|text| text == line);
    let _ = child.kill();
    let _ = child.wait();
    found
}

pub(crate) fn remove_variables(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("SEQD_") {
            command.env_remove(key);
        }
    }
}

fn build(name: &str, feature: Option<&str>) -> PathBuf {
    let own = std::env::current_exe().expect("the path of the running test");
    let mut folder = own.parent().expect("a file lies in a folder");
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder = folder.parent().expect("deps lies in the profile's folder");
    }
    let binary = folder.join(name);
    if is_fresh(&binary) == Some(true) {
        return binary;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The whole workspace is selected, so that its crates are built with the same features as in
    // `cargo test --workspace` and its artefacts are reused.
    command
        .current_dir(workspace())
        .args(["build", "--workspace", "--bin", name])
        .args(["--example", SMALL_EXAMPLE]);
    if let Some(feature) = feature {
        command.args(["--features", feature]);
    }
    command
        .arg("--target-dir")
        .arg(folder.parent().expect("the target folder"));
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "cargo could not build {name}: {status}");
    assert!(
        binary.exists(),
        "cargo built {name}, but not at {}",
        binary.display()
    );
    binary
}

/// Returns whether the binary is newer than all of its sources. The sources are those in cargo's
/// dep-info file. If there is no such file, because `cargo test` built the binary, they are all
/// files of the crates. `None` if it cannot be determined.
fn is_fresh(binary: &Path) -> Option<bool> {
    let built = modified(binary)?;
    let mut files = match std::fs::read_to_string(binary.with_extension("d")) {
        Ok(info) => dep_info(&info)?,
        Err(_) => files_below(&workspace().join("crates")).ok()?,
    };
    files.push(workspace().join("Cargo.lock"));
    files.push(workspace().join("Cargo.toml"));
    Some(
        files
            .iter()
            .all(|file| modified(file).is_some_and(|at| at <= built)),
    )
}

fn dep_info(info: &str) -> Option<Vec<PathBuf>> {
    let (_, sources) = info.split_once(':')?;
    let sources = sources.replace("\\ ", "\u{0}");
    let files = sources.split_whitespace();
    Some(
        files
            .map(|file| PathBuf::from(file.replace('\u{0}', " ")))
            .collect(),
    )
}

/// The files in a folder and its subfolders, without folders named `target`.
pub fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            found.push(path);
        } else if !path.ends_with("target") {
            found.extend(files_below(&path)?);
        }
    }
    Ok(found)
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|data| data.modified()).ok()
}
