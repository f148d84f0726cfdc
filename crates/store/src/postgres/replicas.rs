//! The statements for the list of replicas.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{FromRow, Row};

use super::histories::{timeline, with_timeline};
use super::statements::milliseconds;
use crate::replica_list::{FORGOTTEN_AFTER, REPLICAS_MAX, ordered};
use crate::{Candidate, KnownReplica, ReplicaReport};
use ballast_k8s::Revision;

/// Writes this replica's row, removes old ones, and returns all in one round trip. The statement
/// reads the other rows from its snapshot, in which this replica's row may be missing or old, so
/// that comes from `here`.
const ANNOUNCE: [&str; 2] = with_timeline!(
    "WITH gone AS (
         DELETE FROM replicas
         WHERE name <> $1 AND heard < clock_timestamp() - $6::bigint * interval '1 millisecond'
     ), here AS (
         INSERT INTO replicas (name, address, version, missing, lag_ms, heard, seen, timeline)
         VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $8, ",
    ")
         ON CONFLICT (name) DO UPDATE SET
             address = excluded.address, version = excluded.version, missing = excluded.missing,
             lag_ms = excluded.lag_ms, heard = excluded.heard, seen = excluded.seen,
             prior = CASE WHEN replicas.timeline = excluded.timeline THEN replicas.prior ELSE replicas.heard END,
             timeline = excluded.timeline
         RETURNING name, address, version, missing, lag_ms, heard, seen
     ), known AS (
         SELECT name, address, version, missing, lag_ms, heard, seen FROM here
         UNION ALL
         SELECT name, address, version, missing, lag_ms, heard, seen FROM replicas
         WHERE name <> $1 AND heard >= clock_timestamp() - $6::bigint * interval '1 millisecond'
     )
     SELECT known.name, known.address, known.version, known.missing, known.lag_ms, known.seen,
         (extract(epoch FROM clock_timestamp() - known.heard) * 1000)::bigint AS silent_ms,
         head.holder = known.name AND head.expires > clock_timestamp() AS leads
     FROM known CROSS JOIN head ORDER BY known.heard DESC LIMIT $7"
);

/// Implements `Store::announce`.
pub(super) async fn announce(
    connection: &mut PgConnection,
    announcement: &ReplicaReport,
    has_timelines: bool,
) -> Result<Vec<KnownReplica>, sqlx::Error> {
    let ReplicaReport { replica, version, seen, missing, lag } = announcement;
    let rows: Vec<KnownReplica> = sqlx::query_as(ANNOUNCE[usize::from(has_timelines)])
        .bind(&replica.name)
        .bind(&replica.address)
        .bind(version)
        .bind(i64::try_from(*missing).unwrap_or(i64::MAX))
        .bind(milliseconds(*lag))
        .bind(milliseconds(FORGOTTEN_AFTER))
        .bind(i64::try_from(REPLICAS_MAX).unwrap_or(i64::MAX))
        .bind(seen.0)
        .fetch_all(connection)
        .await?;
    Ok(ordered(rows.into_iter()))
}

/// Implements `Store::depart`.
pub(super) async fn depart(connection: &mut PgConnection, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM replicas WHERE name = $1").bind(name).execute(connection).await?;
    Ok(())
}

impl FromRow<'_, PgRow> for KnownReplica {
    fn from_row(row: &PgRow) -> Result<KnownReplica, sqlx::Error> {
        // A clock that was set back must not lead to negative durations.
        let count = |column: &str| row.try_get(column).map(|count: i64| u64::try_from(count).unwrap_or(0));
        Ok(KnownReplica {
            announcement: ReplicaReport {
                replica: Candidate { name: row.try_get("name")?, address: row.try_get("address")? },
                version: row.try_get("version")?,
                seen: Revision(row.try_get("seen")?),
                missing: count("missing")?,
                lag: Duration::from_millis(count("lag_ms")?),
            },
            leads: row.try_get("leads")?,
            silent: Duration::from_millis(count("silent_ms")?),
        })
    }
}
