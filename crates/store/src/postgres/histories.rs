//! The statements that detect a lost history.
//!
//! A promoted standby starts a new timeline, and may lack commits. So each commit compares the
//! timeline with the timeline that the leader has accepted, in its own statement. For a server that
//! does not report its timeline, it is always zero.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use super::errors;
use super::statements::{CHANNEL, milliseconds};
use crate::replica_list::THERE_WITHIN;
use crate::rows::{self, Keys, Whole};
use crate::{Bounds, Error, Losses, Term, Tip, sqlstate};
use ballast_k8s::Revision;

/// The timeline of the server: the first part of the name of a WAL file.
macro_rules! timeline {
    () => {
        "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint"
    };
}
pub(super) use timeline;

/// A statement that reads the timeline, preceded by a variant for servers that do not report it.
macro_rules! with_timeline {
    ($before:expr, $after:expr) => {
        [concat!($before, "0::bigint", $after), concat!($before, timeline!(), $after)]
    };
}
pub(super) use with_timeline;

/// Returns the timeline of a server that reports it.
pub(super) async fn timeline_of(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(concat!("SELECT ", timeline!())).fetch_one(connection).await
}

/// Returns whether the server reports its timeline. CockroachDB does not.
pub(super) async fn has_timelines(connection: &mut PgConnection) -> Result<bool, Error> {
    match sqlx::query_scalar::<_, i64>(concat!("SELECT ", timeline!())).fetch_one(connection).await {
        Ok(_) => Ok(true),
        Err(error) if sqlstate::is_lost(&error) || sqlstate::code(&error).is_none() => {
            Err(errors::classify("failed to ask for the timeline", error))
        }
        Err(_) => Ok(false),
    }
}

/// Selects the variant of a statement with or without the timeline.
fn of(statements: [&'static str; 2], has_timelines: bool) -> &'static str {
    statements[usize::from(has_timelines)]
}

const TIP: [&str; 2] = with_timeline!(
    concat!(
        "SELECT own.revision, own.kind, own.namespace, own.name, own.operation, own.created, own.previous,
             own.time_ms, own.checksum, own.object, head.last, compaction.compacted, head.lift, head.lost, "
    ),
    " FROM head CROSS JOIN compaction LEFT JOIN changes AS own ON own.revision = $1"
);

/// Implements `Store::tip`.
pub(super) async fn tip(connection: &mut PgConnection, at: Revision, has_timelines: bool) -> Result<Tip, sqlx::Error> {
    let row: PgRow = sqlx::query(of(TIP, has_timelines)).bind(at.0).fetch_one(connection).await?;
    let is_there = row.try_get::<Option<i64>, _>(0)?.is_some();
    let own = is_there.then(|| rows::change(&row, 0, &mut Keys::default(), &Whole)).transpose()?.flatten();
    Ok(Tip {
        bounds: Bounds { last: Revision(row.try_get(10)?), compacted: Revision(row.try_get(11)?) },
        own,
        lift: row.try_get(12)?,
        marked: Revision(row.try_get(13)?),
        timeline: row.try_get(14)?,
    })
}

/// Implements `Store::mark_lost`. The first mark ends the term of another leader, as its
/// resignation would.
pub(super) async fn mark_lost(
    connection: &mut PgConnection,
    term: Term,
    seen: Revision,
    notifies: bool,
) -> Result<(), sqlx::Error> {
    let marked = sqlx::query(
        "UPDATE head SET
             lost = $2,
             lost_at = CASE WHEN lost > 0 THEN lost_at ELSE clock_timestamp() END,
             mark_term = CASE WHEN mark_term = term AND term <> $1 AND lost = 0 THEN term + 1 ELSE mark_term END,
             term = CASE WHEN term = $1 OR lost > 0 THEN term ELSE term + 1 END,
             session = CASE WHEN term = $1 OR lost > 0 THEN session ELSE 0 END,
             holder = CASE WHEN term = $1 OR lost > 0 THEN holder ELSE '' END,
             address = CASE WHEN term = $1 OR lost > 0 THEN address ELSE '' END,
             expires = CASE WHEN term = $1 OR lost > 0 THEN expires ELSE clock_timestamp() END
         WHERE lost < $2 AND $2 >= (SELECT compacted FROM compaction)",
    );
    let marked = marked.bind(term.0).bind(seen.0).execute(&mut *connection).await?;
    if notifies && marked.rows_affected() > 0 {
        // Like a resignation: names no revision, and wakes every follower.
        sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(connection).await?;
    }
    Ok(())
}

/// A replica is awaited if it was alive when the history was marked, or when the server of the
/// earlier timeline ended, which the latest report on that timeline determines.
const LOSSES: [&str; 2] = with_timeline!(
    "WITH server AS (SELECT ",
    " AS timeline), ended AS (
         SELECT max(CASE WHEN replicas.timeline = server.timeline THEN prior ELSE heard END) AS at
         FROM replicas CROSS JOIN server
     ), awaited AS (
         SELECT 1 FROM replicas CROSS JOIN head CROSS JOIN server CROSS JOIN ended
         WHERE (head.timeline NOT IN (0, server.timeline) AND replicas.timeline <> server.timeline
                 AND replicas.heard > ended.at - $1::bigint * interval '1 millisecond')
             OR (head.lost > 0 AND replicas.heard < head.lost_at
                 AND replicas.heard > head.lost_at - $1::bigint * interval '1 millisecond')
     )
     SELECT head.last, head.lost, head.timeline NOT IN (0, server.timeline),
         (SELECT coalesce(max(seen), 0) FROM replicas), (SELECT count(*) FROM awaited)
     FROM head CROSS JOIN server"
);

/// Implements `Store::losses`.
pub(super) async fn losses(connection: &mut PgConnection, has_timelines: bool) -> Result<Losses, sqlx::Error> {
    let (last, marked, is_promoted, seen, awaited): (i64, i64, bool, i64, i64) =
        sqlx::query_as(of(LOSSES, has_timelines)).bind(milliseconds(THERE_WITHIN)).fetch_one(connection).await?;
    Ok(Losses {
        last: Revision(last),
        marked: Revision(marked),
        seen: Revision(seen),
        is_promoted,
        awaited: usize::try_from(awaited).unwrap_or(0),
    })
}

const ACCEPT: [&str; 2] = with_timeline!("UPDATE head SET timeline = ", " WHERE term = $1");

/// Implements `Store::accept`. Returns false if the term has ended.
pub(super) async fn accept(
    connection: &mut PgConnection,
    term: Term,
    has_timelines: bool,
) -> Result<bool, sqlx::Error> {
    let accepted = sqlx::query(of(ACCEPT, has_timelines)).bind(term.0).execute(connection).await?;
    Ok(accepted.rows_affected() == 1)
}
