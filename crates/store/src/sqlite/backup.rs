//! Copies a database while another process may write to it.
//!
//! SQLite copies a single consistent snapshot, and writers continue meanwhile. The copy is a single
//! file. It gets its name only once it is durable.
//!
//! A server that continues from the copy must not reuse revisions that clients have seen with other
//! contents. So the revision of the copy is bumped (docs/decisions/0011): a watch that resumes gets
//! 410 and lists again.

use std::fs::File;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::errors::{classify, corrupt};
use super::open::{APPLICATION_ID, unavailable};
use super::{private_file, statements};
use crate::{Error, REVISIONS_SKIPPED};
use ballast_k8s::Revision;

/// Copies the database to the new file `copy`. Returns the revision of the last change in it.
pub async fn backup(database: &Path, copy: &Path) -> Result<Revision, Error> {
    const ACTION: &str = "failed to copy the database";
    let failed = |error| classify(ACTION, error);
    if copy.exists() {
        return Err(corrupt(format!("{} is there already; name another file", copy.display()), None));
    }
    let unfinished = beside(copy);
    // An earlier attempt may have left the file.
    let _nothing_there = std::fs::remove_file(&unfinished);
    let options = SqliteConnectOptions::new().filename(database).create_if_missing(false).disable_statement_logging();
    let mut connection = options.connect().await.map_err(failed)?;
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(corrupt(format!("{} is no database of ours; name another file", database.display()), None));
    }
    let target = unfinished.to_string_lossy().into_owned();
    // SQLite writes into the empty file, and keeps its mode.
    private_file::create(&unfinished).map_err(|error| unavailable(ACTION, error))?;
    sqlx::query("VACUUM INTO ?").bind(target).execute(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;

    let options = SqliteConnectOptions::new().filename(&unfinished).disable_statement_logging();
    let mut written = options.connect().await.map_err(failed)?;
    let (bounds, _) = statements::bounds(&mut written).await.map_err(failed)?;
    let bumped = Revision(bounds.last.0.saturating_add(REVISIONS_SKIPPED));
    statements::bump_revision(&mut written, bumped).await.map_err(failed)?;
    written.close().await.map_err(failed)?;
    let placed =
        File::open(&unfinished).and_then(|file| file.sync_all()).and_then(|()| std::fs::rename(&unfinished, copy));
    placed.map_err(|error| unavailable(ACTION, error))?;
    Ok(bounds.last)
}

fn beside(copy: &Path) -> PathBuf {
    let mut name = copy.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}
