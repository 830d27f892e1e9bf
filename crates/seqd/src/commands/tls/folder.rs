//! The folder that `seqd tls init` creates: `ca.crt` and `ca.key`, and `NAME.crt` and `NAME.key`
//! for each node and client.

use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use seqd_client::api::exit;
use seqd_net::tls::issue::{Authority, Issued};
use seqd_net::tls::{TlsError, Validity, check_private};

use crate::failure::Failure;
use crate::private;

/// The base name of the CA's files.
pub(crate) const CA: &str = "ca";

const DAY: i64 = 24 * 3600;

/// Certificates are valid from this many seconds before their creation, because the clock of
/// another machine may be behind.
const CLOCKS: i64 = 3600;

/// A folder of certificates.
pub(crate) struct Folder(PathBuf);

/// A validity of this many days from now on.
pub(crate) fn for_days(days: u32, now: i64) -> Validity {
    Validity {
        from: now - CLOCKS,
        until: now + i64::from(days) * DAY,
    }
}

pub(crate) fn failed(error: TlsError) -> Failure {
    Failure::failed(error.to_string())
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    pub(crate) fn cert(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.crt"))
    }

    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.key"))
    }

    /// Returns an error if this name has files already.
    pub(crate) fn refuse_present(&self, name: &str) -> Result<(), Failure> {
        for path in [self.cert(name), self.key(name)] {
            if path.symlink_metadata().is_ok() {
                let why = format!("{} already exists and is not overwritten", path.display());
                return Err(Failure::of(exit::CONFLICT, "already-exists", why));
            }
        }
        Ok(())
    }

    /// Creates the folder, accessible only to its user.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0);
        made.map_err(|error| cannot("make", &self.0, &error))
    }

    /// Writes a certificate and its key. The key is written first, so that every certificate in the
    /// folder has its key.
    pub(crate) fn put(&self, name: &str, issued: &Issued) -> Result<(), Failure> {
        write(&self.key(name), &issued.key, 0o600)?;
        write(&self.cert(name), &issued.cert, 0o644)
    }

    pub(crate) fn authority(&self) -> Result<Authority, Failure> {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| {
                let hint = "--dir must be a folder from `seqd tls init`, with its ca.key";
                cannot("read", &path, &error).with_hint(hint)
            })
        };
        let (cert, key) = (read(self.cert(CA))?, read(self.key(CA))?);
        check_private(&self.key(CA)).map_err(failed)?;
        Authority::load(&cert, &key).map_err(|error| {
            let path = self.cert(CA);
            Failure::failed(format!("{}: {error}", path.display()))
        })
    }

    /// The names of all certificates except the CA's, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(&self.0).map_err(|error| cannot("read", &self.0, &error))?;
        let files = entries.flatten().map(|entry| entry.file_name());
        let name = |file: std::ffi::OsString| Some(file.to_str()?.strip_suffix(".crt")?.to_owned());
        let mut names: Vec<String> = files.filter_map(name).filter(|name| name != CA).collect();
        names.sort();
        Ok(names)
    }
}

/// Replaces a file as a whole. The new file has this mode from the start.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let written = (|| -> io::Result<()> {
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private::new_file(&beside, mode)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    written.map_err(|error| cannot("write", path, &error))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", path.display()))
}
