//! The statements of a revision bump: the bump itself, and a query for the first row after the gap.

use sqlx::postgres::PgConnection;

use super::statements::CHANNEL;
use crate::Term;
use ballast_k8s::Revision;

/// Makes `to` the end of the log if the log ends before it, no history was lost beyond it, and the
/// term is the current one. Returns the current term. Both rows change in one statement.
pub(super) async fn bump_revision(
    connection: &mut PgConnection,
    term: Term,
    to: Revision,
    notifies: bool,
) -> Result<Term, sqlx::Error> {
    let (current, is_bumped): (i64, bool) = sqlx::query_as(
        "WITH lifted AS (
             UPDATE head SET last = $2, lost = 0, lift = 1 + floor(random() * 1000000000000000)::bigint
             WHERE term = $1 AND last < $2 AND lost < $2 RETURNING term
         ), emptied AS (
             UPDATE compaction SET compacted = $2, swept = $2 WHERE EXISTS (SELECT 1 FROM lifted)
         )
         SELECT term, true FROM lifted
         UNION ALL
         SELECT term, false FROM head WHERE NOT EXISTS (SELECT 1 FROM lifted)",
    )
    .bind(term.0)
    .bind(to.0)
    .fetch_one(&mut *connection)
    .await?;
    if notifies && is_bumped {
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(to.0.to_string()).execute(connection).await?;
    }
    Ok(Term(current))
}

/// Returns the revision of the first row after a revision.
pub(super) async fn row_after(connection: &mut PgConnection, after: Revision) -> Result<Option<Revision>, sqlx::Error> {
    let found: Option<i64> = sqlx::query_scalar("SELECT min(revision) FROM changes WHERE revision > $1")
        .bind(after.0)
        .fetch_one(connection)
        .await?;
    Ok(found.map(Revision))
}
