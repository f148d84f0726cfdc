//! Copies a whole log with its revisions into an empty one. Clients need not list again: a watch of
//! the old log resumes on the new one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::source_rows::SourceRows;
use super::{Bounds, Candidate, Error, PostgresStore, Settings, SqliteStore, Store, Table, Term, histories};
use ballast_k8s::GroupResource;

/// The lease of a copy. After a copy was killed, a server waits this long.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(5);
const CLOSE_TRIES: usize = 20;
const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub rows: u64,
    pub bounds: Bounds,
}

/// A log that can be filled.
enum Target {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

/// Copies the log at one URL into the empty log at another. No other process may lead either of
/// them: the copy takes both leases, under a name that no other process has. A copy that fails
/// leaves the target empty.
///
/// `secrets` are the kinds that replicas share through a database and that must not be written to a
/// file. In a copy to SQLite their objects are reduced to their metadata.
pub async fn copy(
    from: &str,
    to: &str,
    tables: &[Table],
    settings: &Settings,
    name: String,
    secrets: &[GroupResource],
) -> Result<Copied, Error> {
    super::check_log(from, settings).await?;
    let source = super::open_with(from, tables, settings).await?;
    let target = match to.strip_prefix("sqlite://") {
        Some(path) => Target::Sqlite(Box::new(SqliteStore::open(path.as_ref(), tables).await?)),
        None => Target::Postgres(Box::new(PostgresStore::open(to, tables, settings).await?)),
    };
    let as_store: &dyn Store = match &target {
        Target::Sqlite(store) => &**store,
        Target::Postgres(store) => store.as_store(),
    };
    let candidate = Candidate { name, address: String::new() };
    let source_term = lead(&*source, from, &candidate).await?;
    let term = match lead(as_store, to, &candidate).await {
        Ok(term) => term,
        Err(error) => {
            let _ = source.resign(source_term).await;
            return Err(error);
        }
    };
    let copied = async {
        // Marks are not copied, so the bump that they require happens first.
        histories::lift_lost(&*source, source_term).await?;
        fill(&target, term, &*source, secrets).await
    };
    let copied = tokio::select! {
        copied = copied => copied,
        lost = keep_leading(&*source, &candidate, source_term) => Err(lost),
    };
    // If resigning fails, the lease expires.
    let _ = as_store.resign(term).await;
    let _ = source.resign(source_term).await;
    let copied = copied?;
    tidy_up(as_store).await?;
    tidy_up(&*source).await?;
    Ok(copied)
}

/// Closes a store, retrying while its last checkpoint is still running.
pub(super) async fn tidy_up(store: &dyn Store) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match store.close().await {
            Err(_) if tries < CLOSE_TRIES => tokio::time::sleep(CLOSE_PAUSE).await,
            outcome => return outcome,
        }
    }
}

async fn fill(target: &Target, term: Term, source: &dyn Store, secrets: &[GroupResource]) -> Result<Copied, Error> {
    let mut rows = SourceRows::of(source).await?;
    match target {
        Target::Sqlite(store) => {
            rows.leave_out(secrets);
            store.fill(&mut rows).await?;
        }
        Target::Postgres(store) => store.fill(term, &mut rows).await?,
    }
    Ok(Copied { rows: rows.copied(), bounds: rows.bounds() })
}

/// Takes the lease, so that no other process can write.
pub(super) async fn lead(store: &dyn Store, url: &str, candidate: &Candidate) -> Result<Term, Error> {
    let state = store.lead(candidate, LEASE).await?;
    match state.is_held_by(candidate) {
        true => Ok(state.term),
        false => {
            let text = format!(
                "{} leads {}; stop all replicas first (a command that was interrupted leads for up to {} more seconds)",
                state.holder,
                super::shown(url),
                LEASE.as_secs()
            );
            Err(Error::Unavailable { action: "others use it", source: Arc::new(io::Error::other(text)) })
        }
    }
}

/// Renews the lease until it is lost, and returns the error.
pub(super) async fn keep_leading(store: &dyn Store, candidate: &Candidate, term: Term) -> Error {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        match store.lead(candidate, LEASE).await {
            Ok(led) if led.is_held_by(candidate) && led.term == term => {}
            Ok(led) => return Error::Deposed { asked: term, current: led.term },
            Err(error) => return error,
        }
    }
}
