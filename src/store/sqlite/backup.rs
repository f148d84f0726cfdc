//! A copy of a database that another process may be writing to.
//!
//! SQLite copies what one reader sees: a moment in the past, whole. Writers go on meanwhile. The
//! copy is one file, without a log beside it, and appears under its name only once it is durable.
//!
//! Whoever goes on from the copy must not give out revisions again that clients have seen with
//! other contents. So its counter is moved on, and all before that counts as compacted: a watch
//! that resumes is told to list anew.

use std::fs::File;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::errors::{classify, corrupt};
use super::open::{APPLICATION_ID, unavailable};
use super::statements;
use crate::k8s::Revision;
use crate::store::Error;

/// By how much: more than a server writes between a copy and its use.
const REVISIONS_SKIPPED: i64 = 1_000_000_000;

/// Answers with the revision of the last change in the copy.
pub async fn backup(database: &Path, copy: &Path) -> Result<Revision, Error> {
    const ACTION: &str = "failed to copy the database";
    let failed = |error| classify(ACTION, error);
    if copy.exists() {
        return Err(corrupt(format!("{} is there already; name another file", copy.display()), None));
    }
    let unfinished = beside(copy);
    // What an earlier try left behind.
    let _nothing_there = std::fs::remove_file(&unfinished);
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(false).disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(corrupt(format!("{} is no database of ours; name another file", database.display()), None));
    }
    let target = unfinished.to_string_lossy().into_owned();
    sqlx::query("VACUUM INTO ?").bind(target).execute(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;

    let options = SqliteConnectOptions::new().filename(&unfinished).disable_statement_logging();
    let mut written = options.connect().await.map_err(failed)?;
    let last = move_on(&mut written).await.map_err(failed)?;
    written.close().await.map_err(failed)?;
    let placed =
        File::open(&unfinished).and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&unfinished, copy));
    placed.map_err(|error| unavailable(ACTION, error))?;
    Ok(last)
}

/// Forgets all but the states, and moves the counter on. Answers with what it was.
async fn move_on(copy: &mut SqliteConnection) -> Result<Revision, sqlx::Error> {
    let (bounds, _) = statements::bounds(copy).await?;
    let next = bounds.last.0.saturating_add(REVISIONS_SKIPPED);
    sqlx::raw_sql(
        "BEGIN; DELETE FROM changes WHERE operation = 'delete' OR revision IN
             (SELECT previous FROM changes WHERE previous > 0)",
    )
    .execute(&mut *copy)
    .await?;
    sqlx::query("UPDATE compaction SET compacted = ?1, swept = ?1").bind(next).execute(&mut *copy).await?;
    sqlx::raw_sql("COMMIT").execute(copy).await?;
    Ok(bounds.last)
}

fn beside(copy: &Path) -> PathBuf {
    let mut name = copy.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}
