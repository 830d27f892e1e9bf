//! `snapshot restore`: creates the folder of a new cluster of one node from a snapshot file.
//!
//! The folder is marked as refused before it has any content, and the mark is removed last: an
//! incomplete restore is never started, and is replaced when the restore is repeated.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqd_disk::{Disk, Kind, OsDisk};
use seqd_guards::is_out;

use super::error::{OfflineError, from_io, from_stop};
use super::lock::FolderLock;
use super::replay::Replayed;
use super::takeover::{Source, Successor, Takeover, TakeoverOptions, take_over};
use seqd_store::folder::{self, Folder};
use seqd_store::records::Member;

/// The code in the mark of a folder with an unfinished restore.
const UNFINISHED: &str = "restore-unfinished";

#[derive(Clone, Debug)]
pub struct RestoreOptions {
    pub file: PathBuf,
    /// A folder that is empty or does not exist yet.
    pub data_dir: PathBuf,
    /// The only member of the new cluster.
    pub member: Member,
    /// `true` if its client address was given. Otherwise the scheme comes from the snapshot's
    /// members, and the port comes from a member with this name on the same host.
    pub is_http_given: bool,
    pub takeover: TakeoverOptions,
}

pub struct Restore {
    takeover: Takeover,
    successor: Successor,
    data_dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
}

impl Restore {
    /// Reads and verifies the whole snapshot. Writes nothing.
    pub fn plan(options: RestoreOptions) -> Result<Self, OfflineError> {
        let RestoreOptions {
            file,
            data_dir,
            mut member,
            is_http_given,
            takeover,
        } = options;
        check_empty(&data_dir)?;
        let replayed = Replayed::of_snapshot(&OsDisk, &file).map_err(from_io(&file))?;
        let source = Source::new(&file, replayed)?;
        if !is_http_given {
            member.http = kept_http(&member, source.membership.membership.nodes.values());
        }
        let (successor, takeover) = take_over(source, member, &takeover)?;
        Ok(Self {
            takeover,
            successor,
            data_dir,
            disk: Arc::new(OsDisk),
        })
    }

    #[must_use]
    pub fn takeover(&self) -> &Takeover {
        &self.takeover
    }

    /// Writes the folder completely and durably.
    ///
    /// # Errors
    /// An error of the disk. The folder is then unusable, and a repeated restore replaces it.
    pub fn carry_out(self) -> Result<(), OfflineError> {
        let root = &self.data_dir;
        let lock = FolderLock::to_fill(root)?;
        // Checked again under the lock: a node or another restore may have used the folder since
        // the plan.
        check_empty(root)?;
        let mark = "a restore into this folder was interrupted: repeat it, or empty the folder";
        let folder = Folder::to_fill(self.disk, root, UNFINISHED, mark).map_err(from_stop)?;
        clear(&**folder.disk(), root).map_err(from_io(root))?;
        self.successor.write(&folder).map_err(from_io(root))?;
        folder.unmark_refused().map_err(from_io(root))?;
        drop(lock);
        Ok(())
    }
}

/// Returns the client address of `member` in the form of the snapshot's members. Clients that use
/// `http` with a TLS port would send their tokens in clear text.
fn kept_http<'a>(member: &Member, before: impl Iterator<Item = &'a Member> + Clone) -> String {
    let own_host = host(&member.http);
    let is_same = |other: &&Member| {
        other.name == member.name && host(&other.http).eq_ignore_ascii_case(own_host)
    };
    if let Some(same) = before.clone().find(is_same) {
        return same.http.clone();
    }
    let mut schemes = before.filter_map(|other| Some(other.http.split_once("://")?.0));
    let secure = schemes.find(|scheme| *scheme == "https");
    match (secure, member.http.split_once("://")) {
        (Some(scheme), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => member.http.clone(),
    }
}

/// Returns the host of a URL without a path. An IPv6 address keeps its brackets.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    match authority.rsplit_once(':') {
        // The last colon is inside the brackets of an address without a port.
        Some((_, rest)) if rest.ends_with(']') => authority,
        Some((host, _)) => host,
        None => authority,
    }
}

/// Fails if the folder is not empty, unless its content comes from an unfinished restore.
fn check_empty(root: &Path) -> Result<(), OfflineError> {
    match OsDisk.kind(root).map_err(from_io(root))? {
        None => return Ok(()),
        Some(Kind::File) => {
            let text = format!("{} is a file", root.display());
            return Err(OfflineError::new("invalid-argument", text));
        }
        Some(Kind::Folder) => {}
    }
    if is_unfinished(root)? || is_out!(RestoredIntoEmpty) {
        return Ok(());
    }
    let names = OsDisk.list(root).map_err(from_io(root))?;
    // A killed restore leaves `refused.tmp`, and a killed start `format.tmp`.
    let kept = ["LOCK", "lost+found", "format", "format.tmp", "refused.tmp"];
    match names.iter().find(|name| !kept.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(OfflineError::new(
            "already-exists",
            format!("{} is not empty: it holds {name}", root.display()),
        )
        .with_hint("give the new node a folder that is empty or does not exist yet")),
    }
}

fn is_unfinished(root: &Path) -> Result<bool, OfflineError> {
    let code = folder::refused_code(&OsDisk, root).map_err(from_stop)?;
    Ok(code.as_deref() == Some(UNFINISHED))
}

/// Removes the remains of an unfinished restore from a marked folder.
fn clear(disk: &dyn Disk, root: &Path) -> io::Result<()> {
    for name in disk.list(root)? {
        if matches!(name.as_str(), "LOCK" | "lost+found" | "format" | "refused") {
            continue;
        }
        let path = root.join(name);
        match disk.kind(&path)? {
            Some(Kind::Folder) => disk.remove_dir_all(&path)?,
            _ => disk.remove(&path)?,
        }
    }
    disk.sync_dir(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, http: &str) -> Member {
        Member {
            name: name.to_owned(),
            peer: "unused.example:7401".to_owned(),
            http: http.to_owned(),
        }
    }

    #[test]
    fn a_restored_member_keeps_the_scheme_of_the_snapshots_members() {
        let secure = [
            member("n1", "https://n1.example:7443"),
            member("n2", "https://n2.example:7443"),
        ];
        let kept = |name: &str, http: &str, before: &[Member]| {
            kept_http(&member(name, http), before.iter())
        };
        let of_n1 = kept("n1", "http://n1.example:7400", &secure);
        assert_eq!(of_n1, "https://n1.example:7443");
        let elsewhere = kept("n1", "http://new.example:7400", &secure);
        assert_eq!(elsewhere, "https://new.example:7400");
        let other = kept("n9", "http://n2.example:7400", &secure);
        assert_eq!(other, "https://n2.example:7400");
        let plain = [member("n1", "http://n1.example:7410")];
        let of_plain = kept("n1", "http://n1.example:7400", &plain);
        assert_eq!(of_plain, "http://n1.example:7410");
        let plain_elsewhere = kept("n1", "http://new.example:7400", &plain);
        assert_eq!(plain_elsewhere, "http://new.example:7400");
    }

    #[test]
    fn a_restored_member_keeps_an_address_without_a_port() {
        let kept = |before: &str, default: &str| {
            kept_http(&member("n1", default), [member("n1", before)].iter())
        };
        let default = "http://n1.example:7400";
        assert_eq!(kept("https://n1.example", default), "https://n1.example");
        assert_eq!(kept("http://N1.example", default), "http://N1.example");
        let default = "http://[::1]:7400";
        assert_eq!(kept("https://[::1]", default), "https://[::1]");
        assert_eq!(kept("https://[::1]:7443", default), "https://[::1]:7443");
        assert_eq!(kept("https://[::2]", default), "https://[::1]:7400");
    }
}
