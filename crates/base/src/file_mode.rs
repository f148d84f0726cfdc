//! Who may read a file that is created. One that is there keeps its mode.

use std::fs::OpenOptions;

/// The owner reads and writes, nobody else.
pub const PRIVATE: u32 = 0o600;
/// The owner reads and writes, everybody reads.
pub const PUBLIC: u32 = 0o644;

/// Options that give a file this mode if they create it. Windows has no modes: there, it has the
/// rights of its folder.
pub fn options(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = (mode, &mut options);
    options
}
