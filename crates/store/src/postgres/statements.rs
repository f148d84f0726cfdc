//! The SQL statements, and the conversion between rows and changes.
//!
//! They use only features common to PostgreSQL and the servers that speak its protocol: no advisory
//! locks, no sequences, no user-defined functions, and no types beyond text, bigint, timestamptz
//! and boolean.

use std::time::Duration;

use sqlx::postgres::PgConnection;

use crate::checksum::checksum;
use crate::rows::{self as read, Whole, columns};
use crate::{Bounds, Candidate, Change, ElectionState, Size, Span, Term};
use ballast_k8s::Revision;

use super::histories::timeline;
pub(super) use super::histories::{accept, losses, mark_lost, tip};
pub(super) use super::history::history;
pub(super) use super::probes::{probe, try_room};
pub(super) use super::quarantine::{examine, quarantined};
pub(super) use super::replaced::replaced;
pub(super) use super::replicas::{announce, depart};
pub(super) use super::revision_bump::{bump_revision, row_after};

/// Optional features of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// LISTEN and NOTIFY.
    pub notifies: bool,
    /// Whether the server reports its timeline.
    pub has_timelines: bool,
}

/// The channel on which commits and resignations are announced.
pub(super) const CHANNEL: &str = "ballast";

/// Selects the first row with a `previous` that is not the newest state of its key. Only the first
/// change of a key is compared; later ones follow it in the same commit.
macro_rules! misfits {
    ($revisions:literal, $kinds:literal, $namespaces:literal, $names:literal, $previous:literal, $is_first:literal) => {
        concat!(
            "SELECT min(asked.revision) FROM unnest(",
            $revisions,
            "::bigint[], ",
            $kinds,
            "::text[], ",
            $namespaces,
            "::text[], ",
            $names,
            "::text[], ",
            $previous,
            "::bigint[], ",
            $is_first,
            "::boolean[]) AS asked (revision, kind, namespace, name, previous, is_first)
         WHERE asked.is_first AND asked.previous <> coalesce((
             SELECT CASE newest.operation WHEN 'delete' THEN 0 ELSE newest.revision END
             FROM changes AS newest
             WHERE newest.kind = asked.kind AND newest.namespace = asked.namespace AND newest.name = asked.name
             ORDER BY newest.revision DESC LIMIT 1), 0)"
        )
    };
}

/// The whole commit in one statement: the fence, the rows and the outcome (docs/decisions/0006). If
/// the fence fails, nothing is stored, and no row is returned.
macro_rules! append {
    ($told:literal, $timeline:expr) => {
        concat!(
            "WITH seat AS (
                 UPDATE head SET last = $4
                 WHERE term = $1 AND session = $2 AND last = $3 AND timeline IN (0, ",
            $timeline,
            ") AND (",
            misfits!("$5", "$6", "$7", "$8", "$11", "$15"),
            ") IS NULL
                 RETURNING last
             ), stored AS (
                 INSERT INTO changes (",
            columns!(),
            ")
                 SELECT asked.* FROM seat CROSS JOIN unnest(
                     $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[],
                     $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[]) AS asked
             )
             SELECT ",
            $told,
            " FROM seat"
        )
    };
}

const APPEND: [&str; 2] = [append!("last::text", "0"), append!("last::text", timeline!())];
const APPEND_AND_NOTIFY: [&str; 2] = [
    append!("pg_notify('ballast', last::text)::text", "0"),
    append!("pg_notify('ballast', last::text)::text", timeline!()),
];

/// The state that a refused commit was compared with.
macro_rules! refused {
    ($timeline:expr) => {
        concat!(
            "SELECT term, session, last, (",
            misfits!("$1", "$2", "$3", "$4", "$5", "$6"),
            "), timeline NOT IN (0, ",
            $timeline,
            ") FROM head"
        )
    };
}

const REFUSED: [&str; 2] = [refused!("0"), refused!(timeline!())];

/// The right of a connection to commit: its term, and its session number within the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FencingToken {
    pub term: Term,
    pub session: i64,
}

/// The columns of the changes of a commit.
struct Columns<'a> {
    revisions: Vec<i64>,
    kinds: Vec<&'a str>,
    namespaces: Vec<&'a str>,
    names: Vec<&'a str>,
    operations: Vec<&'a str>,
    created: Vec<i64>,
    previous: Vec<i64>,
    times_ms: Vec<i64>,
    checksums: Vec<i64>,
    objects: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(changes: &'a [Change]) -> Result<Columns<'a>, sqlx::Error> {
        let objects: Result<Vec<&str>, _> = changes.iter().map(|change| std::str::from_utf8(&change.object)).collect();
        Ok(Columns {
            revisions: changes.iter().map(|change| change.revision.0).collect(),
            kinds: changes.iter().map(|change| change.key.resource.as_str()).collect(),
            namespaces: changes.iter().map(|change| &*change.key.namespace).collect(),
            names: changes.iter().map(|change| &*change.key.name).collect(),
            operations: changes.iter().map(|change| change.operation.as_str()).collect(),
            created: changes.iter().map(|change| change.created.0).collect(),
            previous: changes.iter().map(|change| change.previous.0).collect(),
            times_ms: changes.iter().map(|change| change.time_ms).collect(),
            checksums: changes.iter().map(checksum).collect(),
            objects: objects.map_err(|error| sqlx::Error::Encode(error.into()))?,
        })
    }
}

/// Appends at least one change. Returns false if the fence fails.
pub(super) async fn append(
    connection: &mut PgConnection,
    token: FencingToken,
    changes: &[Change],
    is_first: &[bool],
    dialect: Dialect,
) -> Result<bool, sqlx::Error> {
    let columns = Columns::of(changes)?;
    let (first, last) = (columns.revisions.first().copied(), columns.revisions.last().copied());
    let append = if dialect.notifies { APPEND_AND_NOTIFY } else { APPEND };
    let outcome = sqlx::query(append[usize::from(dialect.has_timelines)])
        .bind(token.term.0)
        .bind(token.session)
        .bind(first.map(|first| first - 1))
        .bind(last)
        .bind(&columns.revisions)
        .bind(&columns.kinds)
        .bind(&columns.namespaces)
        .bind(&columns.names)
        .bind(&columns.operations)
        .bind(&columns.created)
        .bind(&columns.previous)
        .bind(&columns.times_ms)
        .bind(&columns.checksums)
        .bind(&columns.objects)
        .bind(is_first)
        .fetch_optional(connection)
        .await?;
    Ok(outcome.is_some())
}

/// Inserts rows without a fence, within a transaction.
pub(super) async fn insert(connection: &mut PgConnection, changes: &[Change]) -> Result<(), sqlx::Error> {
    let columns = Columns::of(changes)?;
    sqlx::query(concat!(
        "INSERT INTO changes (",
        columns!(),
        ") SELECT * FROM unnest(
             $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[],
             $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[])"
    ))
    .bind(&columns.revisions)
    .bind(&columns.kinds)
    .bind(&columns.namespaces)
    .bind(&columns.names)
    .bind(&columns.operations)
    .bind(&columns.created)
    .bind(&columns.previous)
    .bind(&columns.times_ms)
    .bind(&columns.checksums)
    .bind(&columns.objects)
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets the bounds of a log that was filled. Returns false if it was not empty, or the term has
/// ended.
pub(super) async fn end_copy(connection: &mut PgConnection, term: Term, bounds: Bounds) -> Result<bool, sqlx::Error> {
    let head = sqlx::query("UPDATE head SET last = $1 WHERE last = 0 AND term = $2");
    let head = head.bind(bounds.last.0).bind(term.0).execute(&mut *connection).await?;
    let compaction = sqlx::query("UPDATE compaction SET compacted = $1, swept = $1");
    compaction.bind(bounds.compacted.0).execute(connection).await?;
    Ok(head.rows_affected() == 1)
}

pub(super) struct Refused {
    pub token: FencingToken,
    pub last: Revision,
    /// The first change with a `previous` that is not the newest state.
    pub misfit: Option<Revision>,
    /// Whether a standby was promoted that no leader has accepted yet.
    pub is_promoted: bool,
}

/// Returns why `append` stored nothing.
pub(super) async fn refused(
    connection: &mut PgConnection,
    changes: &[Change],
    is_first: &[bool],
    dialect: Dialect,
) -> Result<Refused, sqlx::Error> {
    let columns = Columns::of(changes)?;
    let refused = sqlx::query_as(REFUSED[usize::from(dialect.has_timelines)]);
    let (term, session, last, misfit, is_promoted): (i64, i64, i64, Option<i64>, bool) = refused
        .bind(&columns.revisions)
        .bind(&columns.kinds)
        .bind(&columns.namespaces)
        .bind(&columns.names)
        .bind(&columns.previous)
        .bind(is_first)
        .fetch_one(connection)
        .await?;
    Ok(Refused {
        token: FencingToken { term: Term(term), session },
        last: Revision(last),
        misfit: misfit.map(Revision),
        is_promoted,
    })
}

/// Starts a new session of a term. From then on, statements that an earlier connection has sent
/// store nothing. `None` if the term has ended.
pub(super) async fn take_token(connection: &mut PgConnection, term: Term) -> Result<Option<FencingToken>, sqlx::Error> {
    let session: Option<i64> =
        sqlx::query_scalar("UPDATE head SET session = session + 1 WHERE term = $1 RETURNING session")
            .bind(term.0)
            .fetch_optional(connection)
            .await?;
    Ok(session.map(|session| FencingToken { term, session }))
}

pub(super) async fn term(connection: &mut PgConnection) -> Result<Term, sqlx::Error> {
    sqlx::query_scalar("SELECT term FROM head").fetch_one(connection).await.map(Term)
}

/// Takes the lease in a term under a condition, and returns the leader.
macro_rules! lead {
    ($term:literal, $is_mine:literal, $is_free:literal) => {
        concat!(
            "WITH taken AS (
                 UPDATE head SET
                     term = CASE WHEN ",
            $is_mine,
            " THEN term ELSE ",
            $term,
            " END,
                     session = CASE WHEN ",
            $is_mine,
            // No leader of a lost history has had the same session number.
            " THEN session ELSE floor(random() * 1000000000000000)::bigint END,
                     mark = CASE WHEN mark_term = term THEN mark ELSE 0 END,
                     mark_term = CASE WHEN ",
            $is_mine,
            " THEN mark_term ELSE ",
            $term,
            " END,
                     holder = $1,
                     address = $2,
                     expires = clock_timestamp() + $3::bigint * interval '1 millisecond'
                 WHERE ",
            $is_mine,
            " OR ",
            $is_free,
            "
                 RETURNING term, holder, address, expires
             ), found AS (
                 SELECT term, holder, address, expires FROM taken
                 UNION ALL
                 SELECT term, holder, address, expires FROM head WHERE NOT EXISTS (SELECT 1 FROM taken)
             )
             SELECT term, holder, address, (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint FROM found"
        )
    };
}

const LEAD: &str = lead!("term + 1", "holder = $1", "expires <= clock_timestamp()");
const LEAD_IN: &str = lead!("$4::bigint", "(holder = $1 AND term = $4::bigint)", "term < $4::bigint");

pub(super) async fn lead(
    connection: &mut PgConnection,
    candidate: &Candidate,
    lease: Duration,
) -> Result<ElectionState, sqlx::Error> {
    let asked = sqlx::query_as(LEAD).bind(&candidate.name).bind(&candidate.address).bind(milliseconds(lease));
    asked.fetch_one(connection).await.map(election_state)
}

pub(super) async fn lead_in(
    connection: &mut PgConnection,
    candidate: &Candidate,
    term: Term,
    lease: Duration,
) -> Result<ElectionState, sqlx::Error> {
    let asked = sqlx::query_as(LEAD_IN).bind(&candidate.name).bind(&candidate.address).bind(milliseconds(lease));
    asked.bind(term.0).fetch_one(connection).await.map(election_state)
}

pub(super) fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn election_state((term, holder, address, remaining_ms): (i64, String, String, i64)) -> ElectionState {
    let remaining = Duration::from_millis(u64::try_from(remaining_ms).unwrap_or(0));
    ElectionState { term: Term(term), holder, address, remaining }
}

pub(super) async fn resign(connection: &mut PgConnection, term: Term, notifies: bool) -> Result<(), sqlx::Error> {
    let resigned = sqlx::query(
        "UPDATE head SET term = term + 1, session = 0, holder = '', address = '', expires = clock_timestamp(),
             mark_term = CASE WHEN mark_term = term THEN term + 1 ELSE mark_term END
         WHERE term = $1",
    );
    let resigned = resigned.bind(term.0).execute(&mut *connection).await?;
    if notifies && resigned.rows_affected() > 0 {
        sqlx::query("SELECT pg_notify($1, '')").bind(CHANNEL).execute(connection).await?;
    }
    Ok(())
}

pub(super) fn rows_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Reads the states at a revision in a part of the log, the first `limit` of them. Returns nothing
/// if the log is compacted beyond the revision. A statement reads a single snapshot, so the bound
/// and the rows are consistent, here and below.
///
/// No rows of history are read: a row that the index of replaced revisions does not name is a state
/// at `at`, or a deletion. The SQL forces every plan to walk only the span in the two indexes: `+
/// 0` prevents walking all revisions up to `at`, and the array makes the server look up the rows
/// one by one.
pub(super) async fn states(
    connection: &mut PgConnection,
    at: Revision,
    span: Span,
    limit: usize,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM changes
         WHERE revision = ANY(ARRAY(
                 SELECT revision FROM changes WHERE revision > $1 AND revision <= $2
                 EXCEPT
                 SELECT previous FROM changes
                 WHERE previous > 0 AND previous > $1 AND previous <= $2 AND revision + 0 <= $3))
             AND operation <> 'delete' AND $3 >= (SELECT compacted FROM compaction)
         ORDER BY revision LIMIT $4"
    ))
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(at.0)
    .bind(rows_of(limit));
    read::changes(asked.fetch(connection), &Whole).await
}

/// Reads the changes after a revision; returns nothing if the log is compacted beyond it.
pub(super) async fn changes(
    connection: &mut PgConnection,
    after: Revision,
    limit: usize,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM changes
         WHERE revision > $1 AND $1 >= (SELECT compacted FROM compaction)
         ORDER BY revision LIMIT $2"
    ))
    .bind(after.0)
    .bind(rows_of(limit));
    read::changes(asked.fetch(connection), &Whole).await
}

/// Implements `Store::replaced_bytes`. The sizes are in the row headers, so no object is read.
pub(super) async fn replaced_bytes(
    connection: &mut PgConnection,
    after: Revision,
    limit: usize,
) -> Result<Vec<(Revision, u64)>, sqlx::Error> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT change.revision,
             coalesce(octet_length(before.object), 0)::bigint
             + CASE change.operation WHEN 'delete' THEN octet_length(change.object) ELSE 0 END
         FROM changes AS change LEFT JOIN changes AS before ON before.revision = change.previous
         WHERE change.revision > $1 ORDER BY change.revision LIMIT $2",
    )
    .bind(after.0)
    .bind(rows_of(limit))
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(revision, bytes)| (Revision(revision), bytes.unsigned_abs())).collect())
}

pub(super) async fn rows(connection: &mut PgConnection, revisions: &[Revision]) -> Result<Vec<Change>, sqlx::Error> {
    let revisions: Vec<i64> = revisions.iter().map(|revision| revision.0).collect();
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        " FROM changes WHERE revision = ANY($1::bigint[]) ORDER BY revision"
    ))
    .bind(revisions);
    read::changes(asked.fetch(connection), &Whole).await
}

/// Returns the bounds of the log, and the revision up to which compaction has examined it.
pub(super) async fn bounds(connection: &mut PgConnection) -> Result<(Bounds, Revision), sqlx::Error> {
    let (last, compacted, swept): (i64, i64, i64) =
        sqlx::query_as("SELECT last, compacted, swept FROM head, compaction").fetch_one(connection).await?;
    Ok((Bounds { last: Revision(last), compacted: Revision(compacted) }, Revision(swept)))
}

pub(super) async fn set_compacted(connection: &mut PgConnection, through: Revision) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE compaction SET compacted = $1 WHERE compacted < $1")
        .bind(through.0)
        .execute(connection)
        .await?;
    Ok(())
}

/// Removes the changes that the changes of a part of the log have replaced. A deletion replaces the
/// last state and is no state itself.
pub(super) async fn sweep(
    connection: &mut PgConnection,
    after: Revision,
    through: Revision,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "WITH gone AS (
             DELETE FROM changes WHERE revision IN (
                 SELECT previous FROM changes WHERE revision > $1 AND revision <= $2 AND previous > 0
                 UNION ALL
                 SELECT revision FROM changes WHERE revision > $1 AND revision <= $2 AND operation = 'delete')
         )
         UPDATE compaction SET swept = $2 WHERE swept = $1",
    )
    .bind(after.0)
    .bind(through.0)
    .execute(connection)
    .await?;
    Ok(())
}

/// Implements `Store::revision_before` by a binary search, because times never decrease along the
/// log. An index would slow every commit. The search runs in the server, which saves a round trip
/// per step.
pub(super) async fn revision_before(connection: &mut PgConnection, time_ms: i64) -> Result<Revision, sqlx::Error> {
    let found: i64 = sqlx::query_scalar(
        "WITH RECURSIVE search (older, younger) AS (
             SELECT 0::bigint, last + 1 FROM head
             UNION ALL
             SELECT CASE WHEN probed.time_ms < $1 THEN probed.revision ELSE older END,
                 CASE WHEN probed.time_ms < $1 THEN younger ELSE (older + younger) / 2 END
             FROM search LEFT JOIN LATERAL (
                 SELECT revision, time_ms FROM changes
                 WHERE revision >= (older + younger) / 2 ORDER BY revision LIMIT 1) AS probed ON true
             WHERE older + 1 < younger
         )
         SELECT max(older) FROM search",
    )
    .bind(time_ms)
    .fetch_one(connection)
    .await?;
    Ok(Revision(found))
}

/// Implements `Store::mark`. Returns zero if a program without markers has led since.
pub(super) async fn mark(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    let mark: i64 = sqlx::query_scalar("SELECT CASE WHEN mark_term = term THEN mark ELSE 0 END FROM head")
        .fetch_one(connection)
        .await?;
    // Only `set_mark` writes it.
    Ok(i32::try_from(mark).unwrap_or_default())
}

/// Implements `Store::set_mark`.
pub(super) async fn set_mark(connection: &mut PgConnection, term: Term, mark: i32) -> Result<(), sqlx::Error> {
    let marked = sqlx::query("UPDATE head SET mark = $1 WHERE term = $2 AND mark_term = term");
    marked.bind(i64::from(mark)).bind(term.0).execute(connection).await?;
    Ok(())
}

/// Returns the size of the log, including indexes and TOAST.
pub(super) async fn size(connection: &mut PgConnection) -> Result<Size, sqlx::Error> {
    let bytes: i64 = sqlx::query_scalar("SELECT pg_total_relation_size('changes')").fetch_one(connection).await?;
    Ok(Size { bytes: bytes.unsigned_abs(), free: None, wal: None })
}
