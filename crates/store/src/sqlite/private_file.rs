//! Restricts the files of a database to their owner, regardless of the umask: they contain the
//! objects of all namespaces, including passwords of proxies (WH2).
//!
//! SQLite gives the `-wal` and `-shm` files the mode of the database. On Windows all of them have
//! the rights of their folder.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ballast_base::file_mode;

/// The endings of the files that belong to a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-lock"];

/// Returns options that create a file for its owner only.
pub fn options() -> OpenOptions {
    file_mode::options(file_mode::PRIVATE)
}

/// Creates an empty file; fails if it exists.
pub fn create(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Makes the database and its files private, and creates the database if it does not exist. The
/// modes of files of an earlier version, and of copies by an operator, are restricted. Files of
/// another user are logged.
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
    [database.to_owned()].into_iter().chain(beside).for_each(|path| narrow(&path));
    Ok(())
}

/// Removes the rights of other users of this machine, if they have any.
#[cfg(unix)]
fn narrow(path: &Path) {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    /// The permission bits of a mode.
    const RIGHTS: u32 = 0o777;

    let Ok(mode) = metadata(path).map(|found| found.permissions().mode() & RIGHTS) else { return };
    if mode & !file_mode::PRIVATE == 0 {
        return;
    }
    let (file, was) = (path.display(), format!("{mode:o}"));
    match set_permissions(path, Permissions::from_mode(mode & file_mode::PRIVATE)) {
        Ok(()) => tracing::info!(%file, was, "other users of this machine can no longer read a file"),
        Err(error) => tracing::warn!(%file, was, %error, "other users of this machine can read a file"),
    }
}

#[cfg(not(unix))]
fn narrow(_: &Path) {}
