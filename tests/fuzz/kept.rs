//! Runs a target on its kept inputs, as a test of the crate that contains the target.
//!
//! Each of these crates includes this file by its path, so that none depends on another for it.

use std::fs;
use std::path::{Path, PathBuf};

/// Prints the input on which a target failed.
struct Running(PathBuf);

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the target failed on {}", self.0.display());
        }
    }
}

/// Runs a target on `seeds` and on the files in `tests/fuzz/corpus/TARGET`.
///
/// `SEQD_WRITE_CORPUS=1` writes the seeds into that folder, as first inputs of a fuzzer.
pub(crate) fn replay(target: &str, seeds: &[(String, Vec<u8>)], run: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus");
    let folder = root.join(target);
    if std::env::var_os("SEQD_WRITE_CORPUS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in seeds {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    for (name, bytes) in seeds {
        let _running = Running(name.into());
        run(bytes);
    }
    let kept = fs::read_dir(&folder).unwrap();
    let mut kept: Vec<_> = kept.map(|file| file.unwrap().path()).collect();
    kept.sort();
    assert!(!kept.is_empty(), "nothing is kept of {target}");
    for path in kept {
        let bytes = fs::read(&path).unwrap();
        let _running = Running(path);
        run(&bytes);
    }
}

/// Names inputs by their position.
pub(crate) fn seeds(inputs: impl IntoIterator<Item = Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let named = inputs.into_iter().enumerate();
    named
        .map(|(at, bytes)| (format!("seed-{at:03}"), bytes))
        .collect()
}
