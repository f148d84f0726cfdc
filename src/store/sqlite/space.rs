//! Finds out whether the disk has room for more changes.
//!
//! A database on a full disk can often still write a single page: its log reuses its own space, and
//! a failed commit leaves some behind. So the probe also writes a file of its own and removes it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// About a hundred objects with their pages of the index.
const PROBE_BYTES: usize = 256 * 1024;

/// Where the probe's file is. One that a crash left behind is written over.
pub fn beside(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-probe");
    PathBuf::from(name)
}

/// Takes the space for a moment. Not synced: file systems take the space when it is written.
pub fn try_out(path: &Path) -> io::Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(&vec![0; PROBE_BYTES]));
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => written.and(Err(error)),
        _ => written,
    }
}
