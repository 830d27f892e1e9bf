//! The build with `--cfg seqd_bugs`, and the test programs that it produces.
//!
//! cargo calls this program as the compiler of the workspace's crates, and it adds the flag. All
//! dependencies are therefore built once, for builds with and without the flag.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seqd_tests::binary::workspace;
use seqd_tests::guards::{Place, Row};

/// The flag under which guards can be removed from a whole process.
const FLAG: [&str; 2] = ["--cfg", "seqd_bugs"];

/// Set where this program is called as the compiler.
const COMPILES: &str = "SEQD_GUARDS_COMPILES";

pub(crate) fn is_compiler() -> bool {
    std::env::var_os(COMPILES).is_some()
}

/// Becomes the compiler that cargo names, with the flag added. Returns only if that fails.
pub(crate) fn compile() -> io::Error {
    let mut named = std::env::args_os().skip(1);
    let compiler = named.next().expect("cargo names the compiler");
    Command::new(compiler).args(named).args(FLAG).exec()
}

pub(crate) struct Built {
    programs: BTreeMap<Place, Program>,
}

/// A test program, and the full names of its tests.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    tests: Vec<String>,
}

impl Built {
    /// Builds the tests of `rows`. The crates of `all` rows are named, so that the features of
    /// their dependencies are the same for every selection.
    pub(crate) fn new(all: &[Row], rows: &[Row]) -> Self {
        let packages: BTreeSet<String> = all.iter().map(|row| row.place.package()).collect();
        let places: BTreeSet<&Place> = rows.iter().map(|row| &row.place).collect();
        let messages = build(&packages, &places);
        let mut programs = BTreeMap::new();
        for (place, path) in messages.lines().filter_map(program) {
            if places.contains(&place) {
                let tests = list(&path);
                programs.insert(place, Program { path, tests });
            }
        }
        Self { programs }
    }

    /// The program of a row's test, and the test's full name in it.
    pub(crate) fn test(&self, row: &Row) -> (&Program, &str) {
        let program = self.programs.get(&row.place);
        let program = program.unwrap_or_else(|| panic!("cargo made no {:?}", row.place));
        let is_named = |test: &&String| test.rsplit("::").next() == Some(&row.test);
        let found: Vec<&String> = program.tests.iter().filter(is_named).collect();
        let [test] = found[..] else {
            panic!("{:?} has no single test {}: {found:?}", row.place, row.test);
        };
        (program, test)
    }
}

fn build(packages: &BTreeSet<String>, places: &BTreeSet<&Place>) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let own = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(cargo);
    command
        .current_dir(workspace())
        .env("RUSTC_WORKSPACE_WRAPPER", own)
        .env(COMPILES, "1")
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ]);
    for package in packages {
        command.args(["-p", package]);
    }
    if places.iter().any(|place| place.target.is_none()) {
        command.arg("--lib");
    }
    let targets: BTreeSet<&String> = places
        .iter()
        .filter_map(|place| place.target.as_ref())
        .collect();
    for target in targets {
        command.args(["--test", target]);
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "cargo could not build the tests: {}",
        output.status
    );
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// The place and the path of the test program in a message of cargo.
fn program(message: &str) -> Option<(Place, PathBuf)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.strip_prefix(workspace()).ok()?;
    let target = &message["target"];
    let is_test = target["kind"].as_array()?.iter().any(|kind| kind == "test");
    let target = is_test.then(|| target["name"].as_str().unwrap_or_default().to_owned());
    let folder = folder.to_str()?.to_owned();
    Some((Place { folder, target }, path))
}

fn list(program: &Path) -> Vec<String> {
    let output = Command::new(program)
        .args(["--list", "--format", "terse"])
        .output();
    let text = String::from_utf8(output.expect("a test program starts").stdout);
    let text = text.expect("names are UTF-8");
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}
