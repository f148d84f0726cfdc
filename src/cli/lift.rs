//! `ballast lift`: raises the revisions of a log while no server runs (a revision bump).
//!
//! Use it for a log with clients that have seen later revisions than it has: a restored backup, or
//! objects that came from elsewhere. Otherwise these clients would wait for events in vain, or
//! mistake old revisions for new ones. Afterwards a watch from an earlier revision gets 410, and
//! its client lists again.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::output::print;
use ballast_api as api;
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Revision;
use ballast_node::{UsageError, tables};
use ballast_store::{self as store, Bounds, OfflineLog, REVISION_BUMP_MAX, REVISIONS_SKIPPED, Settings};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The database of the stopped server, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,

    /// A revision that clients have seen. Does nothing if the log already starts after it. Without
    /// the flag the log is always lifted
    #[arg(long, value_name = "REVISION", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..=SEEN_MAX))]
    pub above: Option<i64>,
}

/// The highest revision that a log can be lifted above.
const SEEN_MAX: i64 = REVISION_BUMP_MAX.0 - REVISIONS_SKIPPED;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let url = &args.database_url;
    store::check_url(url).map_err(|error| UsageError(format!("--database-url: {error}")))?;
    if url == "memory:" {
        let what = "--database-url memory: is gone when the process ends; name a database";
        return Err(UsageError(what.to_owned()).into());
    }
    if let Some(path) = url.strip_prefix("sqlite://")
        && !Path::new(path).is_file()
    {
        return Err(UsageError(format!("there is no database at {path} (--database-url)")).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let said = runtime.block_on(lift(args))?;
    print(&format!("{said}\n"))
}

async fn lift(args: &Args) -> anyhow::Result<String> {
    let (url, shown) = (&args.database_url, store::shown(&args.database_url));
    let settings = Settings { password_file: args.database_password_file.clone(), ..Settings::default() };
    let tables = tables::tables(&api::all_kinds());
    let name = format!("ballast-lift-{}", SystemClock.uuid());
    let opened = async {
        store::check_log(url, &settings).await?;
        OfflineLog::open(url, &tables, &settings, name).await
    };
    let log = match opened.await {
        Ok(log) => log,
        Err(error @ store::Error::Misplaced { .. }) => return Err(UsageError::because(error).into()),
        Err(error) => return Err(error).with_context(|| format!("failed to open {shown}")),
    };
    let done = log.during(lift_log(&log, args.above.map(Revision), &shown)).await;
    let closed = log.close().await;
    let said = done.with_context(|| format!("another process has taken {shown}"))??;
    closed.with_context(|| format!("failed to close {shown}"))?;
    Ok(said)
}

async fn lift_log(log: &OfflineLog, above: Option<Revision>, shown: &str) -> anyhow::Result<String> {
    let failed = || format!("failed to lift {shown}");
    let Bounds { last, compacted } = log.store().bounds().await.with_context(failed)?;
    if let Some(above) = above.filter(|above| compacted > *above) {
        return Ok(format!(
            "{shown} begins after revision {compacted}: clients that watch from {above} list again already"
        ));
    }
    let Some(to) = store::bump_target(last, above.unwrap_or_default()) else {
        anyhow::bail!("{shown} is at revision {last}, and no log is lifted beyond {REVISION_BUMP_MAX}");
    };
    log.bump_revision(to).await.with_context(failed)?;
    Ok(format!("{shown} is lifted from revision {last} to {to}: clients that watch list again"))
}
