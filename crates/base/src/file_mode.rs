//! Modes of created files. An existing file keeps its mode.

use std::fs::OpenOptions;

/// Readable and writable for the owner only.
pub const PRIVATE: u32 = 0o600;
/// Writable for the owner, readable for all users.
pub const PUBLIC: u32 = 0o644;

/// Returns options that give a file this mode if they create it. Windows has no modes: there, the
/// file inherits the rights of its folder.
pub fn options(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = (mode, &mut options);
    options
}
