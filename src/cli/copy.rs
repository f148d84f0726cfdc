//! `ballast copy`: copies a log between SQLite and PostgreSQL, in either direction, while no server
//! runs.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::output::print;
use ballast_api as api;
use ballast_base::clock::{Clock, SystemClock};
use ballast_node::{REPLICA_CERTIFICATES, UsageError, tables};
use ballast_store::{self as store, Settings};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The database to copy: sqlite://PATH or postgres://USER@HOST/DATABASE
    #[arg(long)]
    pub from: String,

    /// The database to copy to, which must be empty: sqlite://PATH or postgres://USER@HOST/DATABASE
    #[arg(long)]
    pub to: String,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    for (flag, url) in [("--from", &args.from), ("--to", &args.to)] {
        store::check_url(url).map_err(|error| UsageError(format!("{flag}: {error}")))?;
        if url == "memory:" {
            return Err(UsageError(format!("{flag} memory: is gone when the process ends; name a database")).into());
        }
    }
    if args.from == args.to {
        return Err(UsageError("--from and --to name the same database".to_owned()).into());
    }
    if let Some(path) = args.from.strip_prefix("sqlite://")
        && !Path::new(path).is_file()
    {
        return Err(UsageError(format!("there is no database at {path} (--from)")).into());
    }
    let settings = Settings { password_file: args.database_password_file.clone(), ..Settings::default() };
    let tables = tables::tables(&api::all_kinds());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (from, to) = (store::shown(&args.from), store::shown(&args.to));
    let name = format!("ballast-copy-{}", SystemClock.uuid());
    let copied =
        match runtime.block_on(store::copy(&args.from, &args.to, &tables, &settings, name, &[REPLICA_CERTIFICATES])) {
            Ok(copied) => copied,
            Err(error @ store::Error::Misplaced { .. }) => return Err(UsageError::because(error).into()),
            Err(error) => return Err(error).with_context(|| format!("failed to copy {from} to {to}")),
        };
    let (rows, last) = (copied.rows, copied.bounds.last);
    print(&format!("{to} holds everything up to revision {last} ({rows} rows)\n"))
}
