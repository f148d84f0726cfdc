//! Settings of a database connection.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of a database connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file with the password of a database server, read for every new connection.
    pub password_file: Option<PathBuf>,
    /// Maximum number of read connections to a database server; two more write and listen.
    pub connections_max: u32,
    /// The maximum wait for a free connection.
    pub connection_wait_max: Duration,
    /// The maximum duration of a statement.
    pub answer_max: Duration,
    /// WAL size of a file above which commits are refused. The WAL grows this far only if another
    /// program keeps a read transaction open, and would fill the disk.
    pub wal_bytes_max: u64,
    /// Whether an older schema on a database server is migrated. Otherwise it is refused, because
    /// replicas of the previous version could not start again. A file is always migrated.
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
