//! Finds damaged rows, and moves them to the quarantine.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use super::connector::{self, Connector, within};
use super::errors::classify;
use super::{PostgresStore, Settings, statements};
use crate::checksum::{DamagedRow, EXAMINED_ROWS, Examined, Search};
use crate::rows::{self as read, Keys, Lenient, Whole, columns};
use crate::{Error, Store, Term};
use ballast_k8s::{Key, Revision};

/// Examines the rows after a revision, at most `limit`.
pub(super) async fn examine(
    connection: &mut PgConnection,
    after: Revision,
    limit: usize,
    has_checksums: bool,
) -> Result<Examined, sqlx::Error> {
    let columns =
        if has_checksums { columns!().to_owned() } else { columns!().replace("checksum", "NULL::bigint AS checksum") };
    let statement = format!("SELECT {columns} FROM changes WHERE revision > $1 ORDER BY revision LIMIT $2");
    let objects = Lenient::new(&Whole);
    let asked = sqlx::query(AssertSqlSafe(statement)).bind(after.0).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let changes = read::changes(asked.fetch(connection), &objects).await?;
    Ok(Examined::of(changes, objects.take()))
}

/// Returns whether the table has checksums; earlier versions have none.
async fn has_checksums(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT count(*) > 0 FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name = 'changes' AND column_name = 'checksum'",
    )
    .fetch_one(connection)
    .await
}

/// Implements `Store::set_aside`.
pub(super) async fn quarantined(connection: &mut PgConnection) -> Result<Vec<Key>, sqlx::Error> {
    let rows: Vec<(String, String, String)> =
        sqlx::query_as("SELECT kind, namespace, name FROM quarantine ORDER BY revision").fetch_all(connection).await?;
    let mut keys = Keys::default();
    Ok(rows.iter().map(|(kind, namespace, name)| keys.next(kind, namespace, name)).collect())
}

/// Copies rows to the quarantine.
async fn keep(connection: &mut PgConnection, to: Revision, damaged: &[DamagedRow]) -> Result<(), sqlx::Error> {
    for row in damaged {
        // An interrupted attempt may have copied it already.
        let insert = sqlx::query(concat!(
            "INSERT INTO quarantine (set_aside, fault, ",
            columns!(),
            ") SELECT $1, $2, ",
            columns!(),
            " FROM changes WHERE revision = $3 ON CONFLICT (revision) DO NOTHING"
        ));
        insert.bind(to.0).bind(&row.fault).bind(row.revision.0).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn remove(connection: &mut PgConnection, damaged: &[DamagedRow]) -> Result<(), sqlx::Error> {
    let revisions: Vec<i64> = damaged.iter().map(|row| row.revision.0).collect();
    let delete = sqlx::query("DELETE FROM changes WHERE revision = ANY($1::bigint[])");
    delete.bind(revisions).execute(connection).await?;
    Ok(())
}

impl PostgresStore {
    /// Implements `store::damaged_rows`. Only reads.
    pub(crate) async fn damaged_rows(url: &str, settings: &Settings) -> Result<Vec<DamagedRow>, Error> {
        let failed = |error| classify("failed to read the log", error);
        let connector = Connector::new(url, settings);
        let mut connection = connector.connect().await?;
        let asked = has_checksums(&mut connection);
        let has_checksums = within(connector.answer_max, asked).await.map_err(failed)?;
        let mut search = Search::default();
        loop {
            let examined = examine(&mut connection, search.after, EXAMINED_ROWS, has_checksums);
            if !search.take(within(connector.answer_max, examined).await.map_err(failed)?) {
                break;
            }
        }
        connector::close(connection).await;
        Ok(search.found)
    }

    /// Moves damaged rows to the quarantine, and bumps the revision by one, so that each client
    /// lists again. The caller leads.
    ///
    /// History is removed first, so that an earlier state of a key does not become its state again.
    /// The operation may be repeated after an interruption: a row leaves the log in the transaction
    /// of the bump.
    pub(crate) async fn move_aside(&self, term: Term, damaged: &[DamagedRow]) -> Result<Revision, Error> {
        let failed = |error| classify("failed to set rows aside", error);
        let last = self.bounds().await?.last;
        let to = last.next();
        let mut connection = self.connector.connect().await?;
        let answer_max = self.connector.answer_max;
        within(answer_max, keep(&mut connection, to, damaged)).await.map_err(failed)?;
        while self.compact(last, super::BUMP_ROWS).await? {}
        let mut transaction = within(answer_max, connection.begin()).await.map_err(failed)?;
        within(answer_max, remove(&mut transaction, damaged)).await.map_err(failed)?;
        let bumped = statements::bump_revision(&mut transaction, term, to, self.dialect.notifies);
        let current = within(answer_max, bumped).await.map_err(failed)?;
        if current != term {
            return Err(Error::Deposed { asked: term, current });
        }
        within(answer_max, transaction.commit()).await.map_err(failed)?;
        Ok(to)
    }
}
