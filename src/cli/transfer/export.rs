//! `ballast export`: copies the objects of a log to files, or back to an API server.

use std::path::{Path, PathBuf};

use super::import::{as_named, check_database, opening_failed};
use super::source::Api;
use super::{files, kinds, log, target};
use crate::cli::AnswerIsNo;
use crate::cli::operator::{Format, block_on};
use crate::cli::output::print;
use crate::cli::screen::Screen;
use ballast_node::{UsageError, tables};
use ballast_store::{self as store, Settings};

#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub struct ExportArgs {
    /// Kubeconfig of the API server to write to
    #[arg(long, value_name = "KUBECONFIG", group = "target")]
    pub to: Option<PathBuf>,

    /// Context of the kubeconfig to use, instead of its current one
    #[arg(long, value_name = "NAME", conflicts_with = "to_file")]
    pub context: Option<String>,

    /// File to write a list of all objects to, as JSON or, if it ends with .yaml, as YAML; or a
    /// folder (with a trailing slash), for a file of each kind
    #[arg(long, value_name = "PATH", group = "target")]
    pub to_file: Option<PathBuf>,

    /// The database of the stopped server, or a backup of it, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,

    /// Only compare, and write nothing. The exit status is 3 if something differs
    #[arg(long, conflicts_with = "to_file")]
    pub dry_run: bool,

    /// Delete the objects of exported kinds that only the API server has
    #[arg(long, conflicts_with = "to_file")]
    pub prune: bool,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t, conflicts_with = "to_file")]
    pub output: Format,
}

pub fn run(args: ExportArgs) -> anyhow::Result<()> {
    check_database(&args.database_url)?;
    if let Some(path) = args.database_url.strip_prefix("sqlite://")
        && !Path::new(path).is_file()
    {
        return Err(UsageError(format!("there is no database at {path} (--database-url)")).into());
    }
    block_on(export(args))
}

async fn export(args: ExportArgs) -> anyhow::Result<()> {
    let (served, kinds) = kinds::all();
    let settings = Settings { password_file: args.database_password_file.clone(), ..Settings::default() };
    let opened = store::open_with(&args.database_url, &tables::tables(&served), &settings).await;
    let store = opened.map_err(|error| opening_failed(&args.database_url, error))?;
    let objects = log::objects(&*store).await?;
    store.close().await?;
    if let Some(path) = &args.to_file {
        let written = files::write(path, &kinds, &objects)?;
        let count: usize = kinds.iter().filter_map(|kind| objects.get(&kind.resource())).map(Vec::len).sum();
        return print(&format!("Objects written to {}: {count}; files: {}\n", path.display(), written.len()));
    }
    let Some(kubeconfig) = &args.to else { return Err(UsageError("give --to or --to-file".to_owned()).into()) };
    let api = Api::open(&as_named(kubeconfig, args.context.as_deref()), &kinds).await?;
    let how = target::ExportMode { writes: !args.dry_run, prunes: args.prune };
    let report = target::export(&api, &kinds, objects, how).await?;
    print(&report.text(args.output, "ONLY THERE", Screen::of_stdout(false))?)?;
    if args.dry_run && !report.is_equal() {
        return Err(AnswerIsNo("the database and the API server differ".to_owned()).into());
    }
    match report.sum(|tally| tally.refused) {
        0 => Ok(()),
        refused => anyhow::bail!("objects refused: {refused}; all others are there"),
    }
}
