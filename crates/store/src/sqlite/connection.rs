//! A connection that is replaced after a failure.
//!
//! SQLite rolls a transaction back after some errors and leaves it open after others, so a
//! connection is closed after any error.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{Mutex, MutexGuard};

pub(super) struct SharedConnection {
    options: SqliteConnectOptions,
    idle: Mutex<Option<SqliteConnection>>,
}

/// A connection in use. If it is not returned, as when a call is dropped halfway, it is closed.
pub(super) struct ConnectionGuard<'a> {
    pub connection: SqliteConnection,
    idle: MutexGuard<'a, Option<SqliteConnection>>,
}

impl SharedConnection {
    pub fn new(options: SqliteConnectOptions, connection: SqliteConnection) -> SharedConnection {
        SharedConnection { options, idle: Mutex::new(Some(connection)) }
    }

    /// Creates a shared connection that is opened at the first use.
    pub fn unconnected(options: SqliteConnectOptions) -> SharedConnection {
        SharedConnection { options, idle: Mutex::new(None) }
    }

    /// Closes the connection once it is not in use. The next `acquire` connects again.
    pub async fn close(&self) {
        if let Some(connection) = self.idle.lock().await.take() {
            // A failure to close has no consequences: committed changes are durable.
            let _ = connection.close().await;
        }
    }

    /// Waits for the connection. Callers get it in the order of their calls.
    pub async fn acquire(&self) -> Result<ConnectionGuard<'_>, sqlx::Error> {
        let mut idle = self.idle.lock().await;
        let connection = match idle.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        Ok(ConnectionGuard { connection, idle })
    }
}

impl ConnectionGuard<'_> {
    /// Returns the connection after a success, and closes it after a failure.
    pub async fn end<T>(mut self, outcome: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        match outcome {
            Ok(value) => {
                *self.idle = Some(self.connection);
                Ok(value)
            }
            Err(error) => {
                // Waits until the transaction is rolled back. A failure to close has no
                // consequences.
                let _ = self.connection.close().await;
                Err(error)
            }
        }
    }
}
