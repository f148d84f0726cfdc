//! The only connection that commits.
//!
//! It has a fencing token: the term and its session number within the term. A new connection takes
//! a new token, which fences off commits of the old one, even if the network delivers them later.
//! Taking a token waits for a commit that is being stored.

use std::sync::Arc;

use sqlx::postgres::PgConnection;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connector::{self, Connector, within};
use super::errors::classify;
use super::statements::{self, Dialect, FencingToken};
use crate::log::Heads;
use crate::{Change, Error, Term, sqlstate};
use ballast_k8s::Revision;

const ACTION: &str = "failed to commit";

pub(super) struct Writer {
    connector: Arc<Connector>,
    dialect: Dialect,
    /// `None` before the first use, during a commit, and after a commit with an unknown outcome.
    fenced: Mutex<Option<FencedConnection>>,
}

struct FencedConnection {
    connection: PgConnection,
    made: Instant,
    token: FencingToken,
}

pub(super) enum Outcome {
    Stored,
    /// The commit definitely failed.
    NotStored(sqlx::Error),
    /// The changes may be stored, now or later, until a new token is taken.
    Unknown(sqlx::Error),
}

impl Writer {
    pub fn new(connector: Arc<Connector>, dialect: Dialect) -> Writer {
        Writer { connector, dialect, fenced: Mutex::new(None) }
    }

    /// Makes one attempt to store at least one change.
    pub async fn commit(&self, term: Term, changes: &[Change]) -> Result<Outcome, Error> {
        let (heads, is_first) = Heads::supposed(changes);
        heads.check(changes)?;
        let mut slot = self.fenced.lock().await;
        // A connection that was given up may lead to a server that is not the primary.
        let kept = slot.take().filter(|fenced| !self.connector.is_given_up(fenced.made.elapsed()));
        let mut fenced = self.acquire(kept, term).await.map_err(Error::not_sent)?;
        let appended = statements::append(&mut fenced.connection, fenced.token, changes, &is_first, self.dialect);
        match self.connector.asked(self.connector.answer_max, appended).await {
            Ok(true) => {
                *slot = Some(fenced);
                Ok(Outcome::Stored)
            }
            Ok(false) => {
                let refused = statements::refused(&mut fenced.connection, changes, &is_first, self.dialect);
                let refused =
                    within(self.connector.answer_max, refused).await.map_err(|error| classify(ACTION, error))?;
                let token = fenced.token;
                *slot = Some(fenced);
                if refused.token != token || refused.is_promoted {
                    return Err(Error::Deposed { asked: term, current: refused.token.term });
                }
                Err(conflict(changes, refused.misfit, refused.last))
            }
            Err(error) if sqlstate::is_certain(&error) => {
                if !sqlstate::is_lost(&error) {
                    *slot = Some(fenced);
                }
                Ok(Outcome::NotStored(error))
            }
            Err(error) => Ok(Outcome::Unknown(error)),
        }
    }

    /// Returns when no statement that was sent before can be stored any more.
    pub async fn fence_off(&self, term: Term) -> Result<(), Error> {
        let mut slot = self.fenced.lock().await;
        if slot.as_ref().is_some_and(|fenced| fenced.token.term == term) {
            // A token is kept only after a commit with a known outcome.
            return Ok(());
        }
        match self.acquire(slot.take(), term).await {
            Ok(fenced) => *slot = Some(fenced),
            // The next term fences off all of this one.
            Err(Error::Deposed { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Checks whether commits are possible again: with a new connection, as a commit without a
    /// token needs it, and with rows of realistic size, which are rolled back.
    pub async fn try_out(&self) -> Result<(), Error> {
        let mut connection = self.connector.connect().await?;
        let tried = within(self.connector.answer_max, statements::try_room(&mut connection)).await;
        connector::close(connection).await;
        tried.map_err(|error| classify("failed to write", error))
    }

    pub async fn close(&self) {
        if let Some(fenced) = self.fenced.lock().await.take() {
            connector::close(fenced.connection).await;
        }
    }

    /// Keeps the token if it belongs to the term, and takes a new one otherwise.
    async fn acquire(&self, fenced: Option<FencedConnection>, term: Term) -> Result<FencedConnection, Error> {
        let (mut connection, made) = match fenced {
            Some(fenced) if fenced.token.term == term => return Ok(fenced),
            Some(fenced) => (fenced.connection, fenced.made),
            None => (self.connector.connect().await?, Instant::now()),
        };
        let failed = |error| classify(ACTION, error);
        let token = statements::take_token(&mut connection, term);
        match self.connector.asked(self.connector.answer_max, token).await.map_err(failed)? {
            Some(token) => Ok(FencedConnection { connection, made, token }),
            None => {
                let current =
                    within(self.connector.answer_max, statements::term(&mut connection)).await.map_err(failed)?;
                Err(Error::Deposed { asked: term, current })
            }
        }
    }
}

/// Returns a conflict on the first mismatching change, or on the first change if the log has later
/// ones.
fn conflict(changes: &[Change], misfit: Option<Revision>, last: Revision) -> Error {
    let goes_on = changes[0].revision == last.next();
    let misfit = misfit.filter(|_| goes_on).and_then(|misfit| changes.iter().find(|change| change.revision == misfit));
    Error::Conflict { key: misfit.unwrap_or(&changes[0]).key.clone() }
}
