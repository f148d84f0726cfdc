//! Finds damaged rows in a log, and quarantines the named ones.
//!
//! A damaged row keeps a server from starting. Quarantining it loses its object, so only rows that
//! the caller names are quarantined. The row itself stays in the table `quarantine`.

use std::path::Path;

use super::checksum::{DamagedRow, EXAMINED_ROWS, Examined, Search};
use super::{Candidate, Error, PostgresStore, Settings, SqliteStore, Store, Table, Term, copy, histories};
use ballast_k8s::Revision;

/// A log with rows that may be damaged.
enum Log {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

impl Log {
    async fn open(url: &str, tables: &[Table], settings: &Settings) -> Result<Log, Error> {
        Ok(match url.strip_prefix("sqlite://") {
            Some(path) => Log::Sqlite(Box::new(SqliteStore::open(Path::new(path), tables).await?)),
            None => Log::Postgres(Box::new(PostgresStore::open(url, tables, settings).await?)),
        })
    }

    fn as_store(&self) -> &dyn Store {
        match self {
            Log::Sqlite(store) => &**store,
            Log::Postgres(store) => store.as_store(),
        }
    }

    async fn examine(&self, after: Revision) -> Result<Examined, Error> {
        match self {
            Log::Sqlite(store) => store.examine(after, EXAMINED_ROWS).await,
            Log::Postgres(store) => store.examine(after, EXAMINED_ROWS).await,
        }
    }

    async fn damaged(&self) -> Result<Vec<DamagedRow>, Error> {
        let mut search = Search::default();
        while search.take(self.examine(search.after).await?) {}
        Ok(search.found)
    }

    async fn move_aside(&self, term: Term, damaged: &[DamagedRow]) -> Result<Revision, Error> {
        match self {
            Log::Sqlite(store) => store.move_aside(damaged).await,
            Log::Postgres(store) => store.move_aside(term, damaged).await,
        }
    }
}

/// Returns the damaged rows of a database server's log, a thousand at most. For a file, use
/// `check`.
pub async fn damaged_rows(url: &str, settings: &Settings) -> Result<Vec<DamagedRow>, Error> {
    super::check_log(url, settings).await?;
    PostgresStore::damaged_rows(url, settings).await
}

/// Quarantines the damaged rows with these keys, named as `KIND/NAME` or `KIND/NAMESPACE/NAME`, and
/// returns them. Their objects and all history are lost: each client lists again. A row that is not
/// damaged stays, even if it is named.
///
/// No other process may lead. `name` must be unique among processes.
pub async fn quarantine(
    url: &str,
    tables: &[Table],
    settings: &Settings,
    name: String,
    named: &[String],
) -> Result<Vec<DamagedRow>, Error> {
    let log = Log::open(url, tables, settings).await?;
    let set_aside = set_aside(&log, url, name, named).await;
    copy::tidy_up(log.as_store()).await?;
    set_aside
}

async fn set_aside(log: &Log, url: &str, name: String, named: &[String]) -> Result<Vec<DamagedRow>, Error> {
    let mut damaged = log.damaged().await?;
    damaged.retain(|row| named.contains(&row.key.to_string()));
    if damaged.is_empty() {
        return Ok(damaged);
    }
    let candidate = Candidate { name, address: String::new() };
    let term = copy::lead(log.as_store(), url, &candidate).await?;
    let moved = async {
        // The bump must go beyond any lost history.
        histories::lift_lost(log.as_store(), term).await?;
        log.move_aside(term, &damaged).await
    };
    let moved = moved.await;
    // If resigning fails, the lease expires.
    let _ = log.as_store().resign(term).await;
    moved.map(|_| damaged)
}
