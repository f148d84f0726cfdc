//! Waits for writes of other processes: with LISTEN if the server has it, and by polling otherwise.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connector::{CONNECT_MAX, Connector, within};
use super::statements::CHANNEL;
use crate::Error;
use ballast_base::telemetry;
use ballast_k8s::Revision;

/// The poll interval without LISTEN.
const POLL_UNTOLD: Duration = Duration::from_millis(50);
/// The poll interval with LISTEN, because the connection may have died silently. Shorter than the
/// follower's own timeout.
const POLL_BESIDE: Duration = Duration::from_millis(800);

pub(super) struct Listener {
    connector: Arc<Connector>,
    notifies: bool,
    connection: Mutex<Option<ListenConnection>>,
}

/// A connection that receives notifications.
struct ListenConnection {
    listener: PgListener,
    /// The newest revision that was announced, or that was known at the last announcement or when
    /// the connection was opened.
    heard: Revision,
}

impl Listener {
    pub fn new(connector: Arc<Connector>, notifies: bool) -> Listener {
        Listener { connector, notifies, connection: Mutex::new(None) }
    }

    /// Returns when there may be changes after a revision. Cancel safe.
    pub async fn news(&self, after: Revision) {
        if !self.notifies {
            return tokio::time::sleep(POLL_UNTOLD).await;
        }
        let mut connection = self.connection.lock().await;
        let Some(ListenConnection { listener, heard }) = &mut *connection else {
            match self.listen().await {
                Ok(listener) => *connection = Some(ListenConnection { listener, heard: after }),
                Err(error) => {
                    tracing::debug!(error = telemetry::with_causes(&error), "failed to listen for changes");
                    tokio::time::sleep(POLL_UNTOLD).await;
                }
            }
            // Changes from before LISTEN were not announced.
            return;
        };
        let deadline = Instant::now() + POLL_BESIDE;
        loop {
            match tokio::time::timeout_at(deadline, listener.try_recv()).await {
                Ok(Ok(Some(told))) => {
                    // A resignation names no revision.
                    let last = told.payload().parse().ok().map(Revision);
                    *heard = last.unwrap_or_default().max(after).max(*heard);
                    if last.is_some_and(|last| last <= after) {
                        continue;
                    }
                }
                // There were changes without a notification, so the connection is dead.
                Err(_) if after > *heard => *connection = None,
                Err(_) => {}
                Ok(Ok(None) | Err(_)) => *connection = None,
            }
            return;
        }
    }

    /// Closes the connection until the next call of `news`. A leader never calls it, and unread
    /// notifications would fill the queue that all databases of a server share.
    pub fn pause(&self) {
        // If it is locked, a task is waiting for news, and reads.
        if let Ok(mut connection) = self.connection.try_lock() {
            *connection = None;
        }
    }

    pub async fn close(&self) {
        *self.connection.lock().await = None;
    }

    /// Opens a separate connection that listens.
    async fn listen(&self) -> Result<PgListener, Error> {
        let options = PgPoolOptions::new().max_connections(1).acquire_timeout(CONNECT_MAX);
        let made = Arc::clone(&self.connector);
        let options = options.after_connect(move |connection, _| {
            let made = Arc::clone(&made);
            Box::pin(async move { made.prepare(connection).await })
        });
        let pool = options.connect_lazy_with(self.connector.options()?);
        let listening = async {
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.eager_reconnect(false);
            listener.listen(CHANNEL).await?;
            Ok(listener)
        };
        within(CONNECT_MAX, listening).await.map_err(|error| super::errors::classify("failed to listen", error))
    }
}
