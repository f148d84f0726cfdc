//! `ballast check`: reads every row of a database, and every page of a database file, also while a
//! server is running.
//!
//! Exit status 0 means intact, and 3 damaged. A server checks the pages itself after an unclean
//! shutdown, and each row that it reads.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::AnswerIsNo;
use super::output::print;
use ballast_node::UsageError;
use ballast_store::{self as store, Settings};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The database, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,
}

/// Maximum number of damaged rows that are named.
const NAMED_MAX: usize = 10;
/// Advice for damaged rows.
const ADVICE: &str =
    "restore it from a backup; `ballast serve --quarantine OBJECT` goes on without an object that is named here";

pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let url = &args.database_url;
    if store::is_server(url) {
        return runtime.block_on(check_server(url, args.database_password_file.clone()));
    }
    let Some(path) = url.strip_prefix("sqlite://").filter(|path| !path.is_empty()) else {
        let text = format!("--database-url {url:?} names neither a file (sqlite://PATH) nor a database server");
        return Err(UsageError(text).into());
    };
    // SQLite would only report that it cannot open the file.
    if !Path::new(path).is_file() {
        return Err(UsageError(format!("there is no database at {path} (--database-url)")).into());
    }
    let checked = store::check_header(path.as_ref()).and_then(|()| runtime.block_on(store::check(path.as_ref())));
    match checked {
        Ok(faults) => answer(path, &faults),
        Err(error @ store::Error::Corrupt { .. }) => Err(AnswerIsNo(format!("{path}: {error}")).into()),
        Err(error @ store::Error::Misplaced { .. }) => Err(UsageError::because(error).into()),
        Err(error) => Err(error.into()),
    }
}

async fn check_server(url: &str, password_file: Option<PathBuf>) -> anyhow::Result<()> {
    let (shown, settings) = (store::shown(url), Settings { password_file, ..Settings::default() });
    match store::damaged_rows(url, &settings).await {
        Ok(damaged) => {
            let named: Vec<String> = damaged.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            answer(&shown, &named)
        }
        Err(error @ store::Error::Misplaced { .. }) => Err(UsageError::because(error).into()),
        Err(error @ store::Error::Corrupt { .. }) => Err(AnswerIsNo(format!("{shown}: {error}")).into()),
        Err(error) => Err(error).with_context(|| format!("failed to read {shown}")),
    }
}

fn answer(place: &str, faults: &[String]) -> anyhow::Result<()> {
    match faults.is_empty() {
        true => print(&format!("{place} is whole\n")),
        false => Err(AnswerIsNo(format!("{place} is damaged ({}); {ADVICE}", faults.join("; "))).into()),
    }
}
