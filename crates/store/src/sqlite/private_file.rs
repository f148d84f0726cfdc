//! The files of a database are for their owner alone, whatever the umask: they hold the objects of
//! all namespaces, and passwords of proxies (WH2).
//!
//! SQLite gives the files beside a database the mode of the database.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The owner reads and writes.
const MODE: u32 = 0o600;
/// The bits of a mode that are about rights.
const RIGHTS: u32 = 0o777;

/// The files beside a database, by their endings.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-lock"];

/// Options that create a file for its owner alone.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(MODE);
    options
}

/// Creates an empty file, which must not be there.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Makes the database and the files beside it private, and creates the database if it is not there.
/// Files of an earlier version, and copies that an operator has put in place, are narrowed. Of
/// those that belong to another user, the log tells.
pub fn keep(database: &Path) -> io::Result<()> {
    match create(database) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let beside = BESIDE.into_iter().map(|ending| {
        let mut name = database.as_os_str().to_owned();
        name.push(OsStr::new(ending));
        PathBuf::from(name)
    });
    for path in [database.to_owned()].into_iter().chain(beside) {
        let Ok(mode) = fs::metadata(&path).map(|found| found.permissions().mode() & RIGHTS) else { continue };
        if mode & !MODE == 0 {
            continue;
        }
        let (file, was) = (path.display(), format!("{mode:o}"));
        match fs::set_permissions(&path, Permissions::from_mode(mode & MODE)) {
            Ok(()) => tracing::info!(%file, was, "other users of this machine can no longer read a file"),
            Err(error) => tracing::warn!(%file, was, %error, "other users of this machine can read a file"),
        }
    }
    Ok(())
}
