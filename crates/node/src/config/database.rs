//! Flags about the database. Most apply to a database server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::GoDuration;
use super::history::{ByteCount, bytes};
use ballast_store::Settings;

/// Maximum number of connections that PostgreSQL can be configured with.
const CONNECTIONS_MAX: i64 = 262_143;

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DatabaseArgs {
    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL). It is read
    /// for each new connection
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,

    /// Maximum number of connections that read from PostgreSQL; two more write and listen
    #[arg(long, env = "BALLAST_DATABASE_MAX_CONNECTIONS", default_value_t = 8, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    pub database_max_connections: u32,

    /// How long a read waits for a free connection to PostgreSQL
    #[arg(long, env = "BALLAST_DATABASE_CONNECTION_WAIT", default_value = "5s", value_parser = wait)]
    pub database_connection_wait: GoDuration,

    /// How long PostgreSQL may take to execute a statement
    #[arg(long, env = "BALLAST_DATABASE_TIMEOUT", default_value = "20s", value_parser = wait)]
    pub database_timeout: GoDuration,

    /// Maximum size of the WAL of a SQLite file while a read transaction of another program
    /// prevents a checkpoint. Above it, writes are rejected until that transaction ends
    #[arg(long, env = "BALLAST_DATABASE_WAL_MAX_BYTES", default_value = "2Gi", value_parser = bytes)]
    pub database_wal_max_bytes: ByteCount,

    /// Migrate a log on a database server that an older version has written. This cannot be undone,
    /// and replicas of the older version do not start afterwards: make a backup first. Without the
    /// flag the server refuses to open such a log. A SQLite file is always migrated
    #[arg(long, env = "BALLAST_MIGRATE")]
    pub migrate: bool,

    /// Damaged objects to start without, as `ballast check` names them: their rows are moved to the
    /// table `quarantine`. An object that is not damaged is not moved
    #[arg(long, env = "BALLAST_QUARANTINE", value_name = "OBJECT", value_delimiter = ',', value_parser = object)]
    pub quarantine: Vec<String>,
}

impl DatabaseArgs {
    pub fn settings(&self) -> Settings {
        Settings {
            password_file: self.database_password_file.clone(),
            connections_max: self.database_max_connections,
            connection_wait_max: self.database_connection_wait.0,
            answer_max: self.database_timeout.0,
            wal_bytes_max: self.database_wal_max_bytes.bytes,
            migrates: self.migrate,
        }
    }
}

/// Parses the name of an object: KIND/NAME or KIND/NAMESPACE/NAME.
fn object(text: &str) -> Result<String, String> {
    let parts = text.split('/').filter(|part| !part.is_empty()).count();
    match (2..=3).contains(&parts) && parts == text.split('/').count() {
        true => Ok(text.to_owned()),
        false => Err("give KIND/NAME or KIND/NAMESPACE/NAME, as `ballast check` names it".to_owned()),
    }
}

/// Parses a wait timeout, from 100 ms to 1 hour.
fn wait(text: &str) -> Result<GoDuration, String> {
    let wait: GoDuration = text.parse()?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(60 * 60);
    match allowed.contains(&wait.0) {
        true => Ok(wait),
        false => Err("give a duration from 100ms to 1h".to_owned()),
    }
}
