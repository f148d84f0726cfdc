//! Migrates the tables of a database. A database of a newer program is refused unchanged.
//!
//! Two replicas may start at the same moment. A migration and its record are one transaction, so
//! one of them succeeds. The other fails, retries, and finds it done.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};

use super::connector::{self, Connector, within};
use super::errors::{classify, corrupt};
use super::{PostgresStore, Settings};
use super::{histories, tables};
use crate::{Error, NO_WAY_BACK, Table, shown, sqlstate};

/// The table that lists the applied migrations.
const MIGRATIONS_TABLE: &str = "ballast_migrations";

/// The tables that the migrations create. The views come on top.
const TABLES: [&str; 7] = ["changes", "head", "compaction", "probe", "views", "replicas", "quarantine"];

/// The files of `migrations/postgres`, listed for the same reason as those of SQLite.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let log = include_str!("../../../../migrations/postgres/0001_log.sql").into_sql_str();
    let states = include_str!("../../../../migrations/postgres/0002_states.sql").into_sql_str();
    let replicas = include_str!("../../../../migrations/postgres/0003_replicas.sql").into_sql_str();
    let histories = include_str!("../../../../migrations/postgres/0004_histories.sql").into_sql_str();
    let checksums = include_str!("../../../../migrations/postgres/0005_checksums.sql").into_sql_str();
    let mut migrator = Migrator::with_migrations(vec![
        Migration::new(1, "log".into(), MigrationType::Simple, log, false),
        Migration::new(2, "states".into(), MigrationType::Simple, states, false),
        Migration::new(3, "replicas".into(), MigrationType::Simple, replicas, false),
        Migration::new(4, "histories".into(), MigrationType::Simple, histories, false),
        Migration::new(5, "checksums".into(), MigrationType::Simple, checksums, false),
    ]);
    migrator.dangerous_set_table_name(MIGRATIONS_TABLE);
    // Locking would need an advisory lock, which not every server has.
    migrator.set_locking(false);
    migrator
});

/// Maximum attempts of a migration while other replicas attempt it, too.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum duration of a migration.
const MIGRATION_MAX: Duration = Duration::from_secs(600);

pub(super) struct Opened {
    pub pool: PgPool,
    pub notifies: bool,
    /// Whether the server reports its timeline.
    pub has_timelines: bool,
}

pub(super) async fn open(connector: &Arc<Connector>, tables: &[Table], settings: &Settings) -> Result<Opened, Error> {
    let mut connection = connector.connect().await?;
    let (schema, newest) = (current_schema(&mut connection, tables, settings).await?, newest_schema());
    let is_migrated = (1..newest).contains(&schema);
    if is_migrated {
        tracing::warn!(from = schema, to = newest, "migrating the database, {NO_WAY_BACK}");
    }
    migrate(&mut connection, tables).await?;
    if is_migrated {
        tracing::info!(schema = newest, "migrated the database");
    }
    let version: String = sqlx::query_scalar("SELECT version()")
        .fetch_one(&mut connection)
        .await
        .map_err(|error| classify("failed to read the server's version", error))?;
    let has_timelines = histories::has_timelines(&mut connection).await?;
    connector::close(connection).await;
    if has_timelines {
        connector.compare_timelines();
    }
    let (made, before) = (Arc::clone(connector), Arc::clone(connector));
    let pool = PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.connection_wait_max)
        // It would be a second round trip for each statement. A lost connection is replaced.
        .test_before_acquire(false)
        .before_acquire(move |_, connection| {
            let is_kept = !before.is_given_up(connection.age);
            Box::pin(async move { Ok(is_kept) })
        })
        .after_connect(move |connection, _| {
            let made = Arc::clone(&made);
            Box::pin(async move { made.prepare(connection).await })
        })
        .connect_lazy_with(connector.options()?);
    Ok(Opened { pool, notifies: has_notifications(&version), has_timelines })
}

/// Returns the newest schema that this program supports.
fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Returns the schema of the log; zero if there is none. An older schema is refused unless it may
/// be migrated. Another replica may be creating the log, so an older one is read again.
async fn current_schema(connection: &mut PgConnection, tables: &[Table], settings: &Settings) -> Result<i64, Error> {
    let newest = newest_schema();
    for _ in 0..TRIES {
        let schema = inspect(connection, tables).await?.unwrap_or_default();
        if schema == 0 || schema >= newest || settings.migrates {
            return Ok(schema);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let schema = inspect(connection, tables).await?.unwrap_or_default();
    let advice = format!(
        "an older version has written it (its schema is {schema}, and this version needs {newest}); the migration \
         cannot be undone, and replicas of the older version do not start after it: make a backup, then start \
         `ballast serve` with --migrate"
    );
    if schema < newest { Err(Error::Misplaced { advice }) } else { Ok(schema) }
}

/// Returns whether the server has LISTEN. CockroachDB uses the protocol without it.
fn has_notifications(version: &str) -> bool {
    !version.contains("CockroachDB")
}

impl PostgresStore {
    /// Implements `store::check_log`. Only reads.
    pub(crate) async fn check_log(url: &str, settings: &Settings) -> Result<(), Error> {
        let mut connection = Connector::new(url, settings).connect().await?;
        let schema = inspect(&mut connection, &[]).await?;
        connector::close(connection).await;
        if schema.is_some() {
            return Ok(());
        }
        let advice = format!(
            "there is no log at {}; name a database that a server has written to, and its schema if it has one of its \
             own (?options=-csearch_path=NAME)",
            shown(url)
        );
        Err(Error::Misplaced { advice })
    }
}

/// Refuses a database that must not be written to, and returns the schema of its log, if there is
/// one. Only reads.
async fn inspect(connection: &mut PgConnection, tables: &[Table]) -> Result<Option<i64>, Error> {
    let failed = |error| classify("failed to look at the tables", error);
    let encoding: String =
        sqlx::query_scalar("SHOW server_encoding").fetch_one(&mut *connection).await.map_err(failed)?;
    if encoding != "UTF8" {
        let advice = format!("its encoding is {encoding}; create it with ENCODING 'UTF8' TEMPLATE template0");
        return Err(Error::Misplaced { advice });
    }
    let wanted = TABLES.iter().copied().chain(tables.iter().map(|table| &*table.name));
    let wanted: Vec<String> = wanted.map(str::to_owned).collect();
    let (ours, others): (bool, bool) = sqlx::query_as(
        "SELECT coalesce(bool_or(table_name = $1), false),
             coalesce(bool_or(table_name::text = ANY($2::text[])), false)
         FROM information_schema.tables WHERE table_schema = current_schema()",
    )
    .bind(MIGRATIONS_TABLE)
    .bind(wanted)
    .fetch_one(&mut *connection)
    .await
    .map_err(failed)?;
    if !ours && others {
        let advice = "it holds tables of another program; name another database, or a schema of its own \
                      with ?options=-csearch_path=NAME"
            .to_owned();
        return Err(Error::Misplaced { advice });
    }
    if !ours {
        return Ok(None);
    }
    let newest: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM ballast_migrations")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    let (newest, known) = (newest.unwrap_or_default(), newest_schema());
    if newest > known {
        let advice = format!(
            "it was written by a newer version of this program (its schema is {newest}, the newest known here is \
             {known}); run that version, or name another database"
        );
        return Err(corrupt(advice, None));
    }
    Ok(Some(newest))
}

async fn migrate(connection: &mut PgConnection, tables: &[Table]) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let migrated = async {
            sqlx::query("SET statement_timeout = 0").execute(&mut *connection).await?;
            MIGRATIONS.run(&mut *connection).await.map_err(executed)?;
            tables::create(&mut *connection, tables).await
        };
        match within(MIGRATION_MAX, migrated).await {
            Ok(()) => return Ok(()),
            Err(error) if tries < TRIES && sqlstate::is_created_twice(&error) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(classify("failed to bring the tables up to date", error)),
        }
    }
}

/// Extracts the database error from a migration error.
fn executed(error: MigrateError) -> sqlx::Error {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error,
        error => sqlx::Error::Migrate(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A database records the checksum of each migration. A change of the format is a new file and
    /// a new line here.
    #[test]
    fn every_migration_is_listed() {
        let listed: Vec<String> = MIGRATIONS
            .iter()
            .map(|migration| format!("{:04}_{}.sql", migration.version, migration.description))
            .collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/postgres");
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        assert_eq!(listed, files);
    }

    #[test]
    fn who_has_no_listen_is_asked() {
        assert!(has_notifications("PostgreSQL 15.8 on x86_64-pc-linux-gnu"));
        assert!(!has_notifications("CockroachDB CCL v24.3.1 (x86_64-pc-linux-gnu)"));
    }
}
