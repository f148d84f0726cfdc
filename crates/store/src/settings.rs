//! How a database is used.

use std::path::PathBuf;
use std::time::Duration;

/// How a database is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Holds the password of a database server. It is read for every new connection.
    pub password_file: Option<PathBuf>,
    /// Connections to a database server for reading; two more write and listen.
    pub connections_max: u32,
    /// How long a call may wait for a free connection.
    pub connection_wait_max: Duration,
    /// How long the answer to a statement may take.
    pub answer_max: Duration,
    /// With so much in the WAL of a file that cannot be moved, commits are refused: another program
    /// reads in one transaction, and the disk would be full some time.
    pub wal_bytes_max: u64,
    /// Whether the schema of a log on a database server is migrated. Otherwise an older schema is
    /// refused: replicas of the version before could not start again. A file is migrated always.
    pub migrates: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            password_file: None,
            connections_max: 8,
            connection_wait_max: Duration::from_secs(5),
            answer_max: Duration::from_secs(20),
            wal_bytes_max: 2 << 30,
            migrates: false,
        }
    }
}
