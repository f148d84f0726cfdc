//! Connects to the server. Every wait for it has a bound.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use super::Settings;
use crate::store::Error;

/// The longest wait for a connection, with its TLS and its password.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What is needed to connect. The password is read anew each time, because it may have changed.
pub(super) struct Connector {
    url: String,
    password_file: Option<PathBuf>,
    /// The longest wait for the answer to a statement.
    pub answer_max: Duration,
}

impl Connector {
    pub fn new(url: &str, settings: &Settings) -> Connector {
        Connector {
            url: url.to_owned(),
            password_file: settings.password_file.clone(),
            answer_max: settings.answer_max,
        }
    }

    /// A password in the file wins over that of the URL and of `PGPASSFILE`.
    pub fn options(&self) -> Result<PgConnectOptions, Error> {
        let parsed = PgConnectOptions::from_str(&self.url);
        let mut options = parsed.map_err(|error| misplaced(format!("its URL cannot be read ({error})")))?;
        if let Some(path) = &self.password_file {
            let password = std::fs::read_to_string(path);
            let password = password
                .map_err(|error| misplaced(format!("the password file {} cannot be read ({error})", path.display())))?;
            options = options.password(password.trim_end_matches(['\r', '\n']));
        }
        if options.get_application_name().is_none() {
            options = options.application_name("ballast");
        }
        Ok(options.disable_statement_logging())
    }

    pub async fn connect(&self) -> Result<PgConnection, Error> {
        let options = self.options()?;
        let connecting = async {
            let mut connection = options.connect().await?;
            prepare(&mut connection, self.answer_max).await?;
            Ok(connection)
        };
        let bound = CONNECT_MAX.min(self.answer_max);
        within(bound, connecting).await.map_err(|error| super::errors::classify("failed to connect", error))
    }
}

fn misplaced(advice: String) -> Error {
    Error::Misplaced { advice }
}

/// Makes a new connection ready. A standby is refused: it answers reads that are behind.
pub(super) async fn prepare(connection: &mut PgConnection, answer_max: Duration) -> Result<(), sqlx::Error> {
    let read_only: String = sqlx::query_scalar("SHOW transaction_read_only").fetch_one(&mut *connection).await?;
    if read_only == "on" {
        let standby = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the server takes no writes; is it a standby?");
        return Err(sqlx::Error::Io(standby));
    }
    // The server gives up a statement before its caller does, so that none goes on for nobody.
    let bound = format!("SET statement_timeout = {}", (answer_max * 3 / 4).as_millis());
    sqlx::raw_sql(sqlx::AssertSqlSafe(bound)).execute(connection).await?;
    Ok(())
}

/// Gives up after a time. What was asked may have been done.
pub(super) async fn within<T>(
    bound: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(bound, asked).await.unwrap_or_else(|_| {
        let text = format!("no answer within {} ms", bound.as_millis());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

/// Closes a connection in an orderly way, but does not wait long for it.
pub(super) async fn close(connection: PgConnection) {
    // A failure to close says nothing new.
    let _ = within(CONNECT_MAX, connection.close()).await;
}
