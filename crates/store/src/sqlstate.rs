//! The SQLSTATE codes of PostgreSQL and their classification. No other module interprets them
//! (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).

use std::error::Error as StdError;
use std::io;

#[cfg(feature = "postgres")]
use sqlx::postgres::PgDatabaseError;

pub const UNIQUE_VIOLATION: &str = "23505";
const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK: &str = "40P01";
const READ_ONLY: &str = "25006";
pub const DISK_FULL: &str = "53100";
const NO_PRIVILEGE: &str = "42501";
const TIMED_OUT: &str = "57014";
/// Errors of a statement that was prepared in another session.
const NOT_PREPARED_HERE: [&str; 2] = ["42P05", "26000"];
/// The remedy for a connection pooler that switches sessions between two transactions (api-08).
const SESSIONS: &str = "a connection pooler gives sessions away between transactions: set pool_mode=session";
const NO_TLS: &str = "no trusted connection to the database";
/// Two sessions that concurrently create the same tables get one of these errors.
const CREATED_TWICE: [&str; 6] = [UNIQUE_VIOLATION, "42P07", "42710", "42701", "XX000", "42P01"];

/// An error of the driver with a message for the operator who has to fix it.
#[cfg(feature = "postgres")]
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Worded {
    words: String,
    error: sqlx::Error,
}

#[cfg(feature = "postgres")]
impl Worded {
    pub fn of(error: sqlx::Error) -> Worded {
        let words = match (&error, code(&error)) {
            (_, Some(code)) if NOT_PREPARED_HERE.contains(&code) => format!("{}; {SESSIONS}", message(&error)),
            (sqlx::Error::PoolTimedOut, _) => "no connection came in time: the server or a pooler before it gives too \
                few for --database-max-connections, and two more"
                .to_owned(),
            _ => message(&error),
        };
        Worded { words, error }
    }
}

/// Returns the error message without PostgreSQL's source location.
#[cfg(feature = "postgres")]
fn message(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(database) => format!("error returned from database: {}", database.message()),
        None => error.to_string(),
    }
}

fn of_driver<'a>(source: &'a (dyn StdError + Send + Sync + 'static)) -> Option<&'a sqlx::Error> {
    #[cfg(feature = "postgres")]
    if let Some(worded) = source.downcast_ref::<Worded>() {
        return Some(&worded.error);
    }
    source.downcast_ref()
}

/// Returns why the database is unavailable, as a short reason that clients may see. `None` if the
/// error does not come from PostgreSQL.
pub fn reason(source: &(dyn StdError + Send + Sync + 'static)) -> Option<&'static str> {
    let source = of_driver(source)?;
    if let sqlx::Error::Io(error) = source {
        return Some(match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => "the database is read-only",
            io::ErrorKind::TimedOut => "the database does not answer",
            // rustls reports an untrusted certificate with this kind.
            io::ErrorKind::InvalidData => NO_TLS,
            _ => "the database cannot be reached",
        });
    }
    if matches!(source, sqlx::Error::Protocol(_)) {
        // A proxy or the network has closed the connection.
        return Some("the database cannot be reached");
    }
    if matches!(source, sqlx::Error::PoolTimedOut) {
        return Some("the database gives no connection");
    }
    if matches!(source, sqlx::Error::Tls(_)) {
        return Some(NO_TLS);
    }
    Some(reason_of_code(code(source)?))
}

fn reason_of_code(code: &str) -> &'static str {
    match code {
        DISK_FULL => "the disk of the database is full",
        READ_ONLY => "the database is read-only",
        TIMED_OUT => "the database does not answer",
        NO_PRIVILEGE => "the database refuses the user",
        code if NOT_PREPARED_HERE.contains(&code) => SESSIONS,
        code if code.starts_with("28") => "the database refuses the user or the password",
        code if code.starts_with("53") => "the database has no resources left",
        code if code.starts_with("57P") || code.starts_with("08") => "the database cannot be reached",
        _ => "the database refused it",
    }
}

/// Returns whether the server is unreachable, unresponsive or read-only.
pub fn is_outage(source: &(dyn StdError + Send + Sync + 'static)) -> bool {
    let Some(error) = of_driver(source) else { return false };
    match error {
        sqlx::Error::Io(error) => error.kind() != io::ErrorKind::InvalidData,
        sqlx::Error::PoolTimedOut => true,
        error => is_lost(error) || code(error) == Some(TIMED_OUT),
    }
}

/// Returns whether an immediate retry may succeed. Nothing of the statement was stored.
pub fn is_contention(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(SERIALIZATION_FAILURE | DEADLOCK))
}

/// Returns whether the statement definitely failed, so that nothing of it was or will be stored.
/// After other errors, such as a lost connection, it may have been stored.
pub fn is_certain(error: &sqlx::Error) -> bool {
    let Some(code) = code(error) else { return false };
    ["22", "23", "25", "42", "53", "54"].iter().any(|class| code.starts_with(class)) || is_contention(error)
}

/// Returns whether the connection is lost and a new one may work. A server that has become a
/// standby counts as lost.
pub fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        error if code(error) == Some(READ_ONLY) => true,
        sqlx::Error::Io(error) => error.kind() != io::ErrorKind::TimedOut,
        sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
        error => code(error).is_some_and(|code| code.starts_with("57P") || code.starts_with("08")),
    }
}

pub fn is_refused_user(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code.starts_with("28"))
}

pub fn is_created_twice(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| CREATED_TWICE.contains(&code)) || is_contention(error)
}

#[cfg(not(feature = "postgres"))]
pub fn code(_: &sqlx::Error) -> Option<&str> {
    None
}

#[cfg(feature = "postgres")]
pub fn code(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error()?.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "postgres")]
    fn a_pool_that_gives_no_connection_names_its_flag() {
        let told = Worded::of(sqlx::Error::PoolTimedOut).to_string();
        assert!(told.contains("--database-max-connections"), "{told}");
    }

    #[test]
    fn a_code_of_postgresql_is_told_by_its_kind() {
        for (code, reason) in [
            ("53100", "the disk of the database is full"),
            ("53300", "the database has no resources left"),
            ("25006", "the database is read-only"),
            ("57014", "the database does not answer"),
            ("57P01", "the database cannot be reached"),
            ("08006", "the database cannot be reached"),
            ("42501", "the database refuses the user"),
            ("28P01", "the database refuses the user or the password"),
            ("26000", SESSIONS),
            ("22003", "the database refused it"),
        ] {
            assert_eq!(reason_of_code(code), reason, "{code}");
        }
    }
}
