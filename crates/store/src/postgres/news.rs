//! Waits for what other processes have written: with LISTEN where the server has it, and by asking
//! again after a pause where it has not.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connector::{CONNECT_MAX, Connector, prepare, within};
use super::statements::CHANNEL;
use crate::Error;
use ballast_base::telemetry;
use ballast_k8s::Revision;

/// The pause of a follower that the server does not tell.
const POLL_UNTOLD: Duration = Duration::from_millis(50);
/// After this silence the follower asks by itself. A connection may have died unseen. It is less
/// than a follower waits, which would give up the wait before it ends.
const POLL_BESIDE: Duration = Duration::from_millis(800);

pub(super) struct Listener {
    connector: Arc<Connector>,
    notifies: bool,
    connection: Mutex<Option<ListenConnection>>,
}

/// A connection that is told of changes.
struct ListenConnection {
    listener: PgListener,
    /// The newest revision that it has told, or that was known when it began or last told anything.
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
            // What was written before it listened was not told.
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
                // There were changes that it did not tell: nothing comes over this connection.
                Err(_) if after > *heard => *connection = None,
                Err(_) => {}
                Ok(Ok(None) | Err(_)) => *connection = None,
            }
            return;
        }
    }

    /// Ends the connection until somebody waits for news again. A leader waits for none, and what
    /// is told and never read would fill the queue that all databases of a server share.
    pub fn pause(&self) {
        // Whoever holds it waits for news, and reads.
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
        let answer_max = self.connector.answer_max;
        let options = options.after_connect(move |connection, _| Box::pin(prepare(connection, answer_max)));
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
