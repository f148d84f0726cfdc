//! The statements that find out whether the database can be written.

use sqlx::Connection;
use sqlx::postgres::PgConnection;

/// Stores rows as large as those of a usual commit, and takes them back. They use none of the space
/// that a row had before, unless the server has vacuumed it.
pub(super) async fn try_room(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // One is large enough to be kept apart from the others, which the server does in another file.
    // No revision is below one, so no reader ever meets these.
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

/// Makes something durable that is no change.
pub(super) async fn probe(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE probe SET at = clock_timestamp()").execute(connection).await?;
    Ok(())
}
