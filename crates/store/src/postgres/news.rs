//! Waits for what other processes have written: with LISTEN if the server has it, and by polling if
//! not.

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

/// The pause between two polls without LISTEN.
const POLL_UNTOLD: Duration = Duration::from_millis(50);
/// After this time without a notification, the follower reads the log all the same, because the
/// connection may have died unseen. It is less than the follower's own time-out.
const POLL_BESIDE: Duration = Duration::from_millis(800);

pub(super) struct Listener {
    connector: Arc<Connector>,
    notifies: bool,
    connection: Mutex<Option<ListenConnection>>,
}

/// A connection that receives notifications.
struct ListenConnection {
    listener: PgListener,
    /// The newest revision that it has announced, or that was known when it began or last announced
    /// one.
    heard: Revision,
}

impl Listener {
    pub fn new(connector: Arc<Connector>, notifies: bool) -> Listener {
        Listener { connector, notifies, connection: Mutex::new(None) }
    }

    /// Returns when there may be changes after a revision. Dropping the future loses nothing.
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

    /// Closes the connection until the next wait for news. A leader waits for none, and
    /// notifications that are never read would fill the queue that all databases of a server share.
    pub fn pause(&self) {
        // If it is locked, a task waits for news, and reads.
        if let Ok(mut connection) = self.connection.try_lock() {
            *connection = None;
        }
    }

    pub async fn close(&self) {
        *self.connection.lock().await = None;
    }

    /// Over a connection of its own.
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
