//! Statements that check whether the database is writable.

use sqlx::Connection;
use sqlx::postgres::PgConnection;

/// Stores rows as large as those of a usual commit, and rolls them back. They reuse no space of
/// earlier rows, unless the server has vacuumed it.
pub(super) async fn try_room(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // One row is large enough to go to TOAST storage, which is in another file. No revision is
    // below one, so no reader ever sees these rows.
    sqlx::query(
        "INSERT INTO changes (revision, kind, namespace, name, operation, created, previous, time_ms, object)
         SELECT -number, 'probe', '', number::text, 'create', 0, 0, 0, (
             SELECT string_agg(md5(random()::text), '')
             FROM generate_series(1, CASE number WHEN 1 THEN 1000 ELSE 50 END))
         FROM generate_series(1, 40) AS rows (number)",
    )
    .execute(&mut *transaction)
    .await?;
    transaction.rollback().await
}

/// Makes a write outside the log durable.
pub(super) async fn probe(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE probe SET at = clock_timestamp()").execute(connection).await?;
    Ok(())
}
