//! Checks whether the disk has space for more changes, and whether the database file still exists.
//!
//! A database on a full disk can often still write a single page: its log reuses its own space, and
//! a failed commit leaves some behind. So the probe also writes and removes a separate file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::private_file;

/// About a hundred objects with their index pages.
const PROBE_BYTES: usize = 256 * 1024;

/// Returns the length of the WAL; zero if there is none.
pub fn wal_bytes(database: &Path) -> u64 {
    fs::metadata(next_to(database, "-wal")).map_or(0, |wal| wal.len())
}

/// The identity of the file that a path leads to. Two files never have the same at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    pub fn of(path: &Path) -> io::Result<Identity> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map(|found| Identity(found.dev(), found.ino()))
    }

    /// Checks that the file exists.
    #[cfg(not(unix))]
    pub fn of(path: &Path) -> io::Result<Identity> {
        fs::metadata(path).map(|_| Identity(0, 0))
    }
}

/// Returns the path of the probe's file. One that a crash has left is overwritten.
pub fn beside(database: &Path) -> PathBuf {
    next_to(database, "-probe")
}

fn next_to(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Allocates the space briefly. Not synced, because file systems allocate the space when it is
/// written.
pub fn try_out(path: &Path) -> io::Result<()> {
    let written = probe_file(path).and_then(|mut file| file.write_all(&vec![0; PROBE_BYTES]));
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}

/// Creates the probe's file for its owner only, like all files of a database (WH2).
fn probe_file(path: &Path) -> io::Result<File> {
    private_file::options().write(true).create(true).truncate(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn wh2_the_file_of_a_probe_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = probe_file(&folder.path().join("ballast.db-probe")).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_was_replaced_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("ballast.db"), folder.path().join("other.db"));
        fs::write(&path, "one").unwrap();
        let identity = Identity::of(&path).unwrap();
        fs::write(&path, "changed").unwrap();
        assert_eq!(Identity::of(&path).unwrap(), identity);
        fs::write(&other, "other").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(Identity::of(&path).unwrap(), identity);
        fs::remove_file(&path).unwrap();
        assert_eq!(Identity::of(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
