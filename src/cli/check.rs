//! `ballast check`: reads every page and every object of a database file, also while a server has
//! it.
//!
//! Exit status 0 means whole, and 3 damaged. A server does the same by itself after an end that was
//! not clean.

use std::path::Path;

use super::AnswerIsNo;
use super::output::print;
use ballast_node::UsageError;
use ballast_store as store;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The database, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if store::is_server(&args.database_url) {
        let text = "a PostgreSQL database is checked with its own means (pg_amcheck, data checksums)";
        return Err(UsageError(text.to_owned()).into());
    }
    let Some(path) = args.database_url.strip_prefix("sqlite://").filter(|path| !path.is_empty()) else {
        return Err(UsageError(format!("--database-url {:?} names no file: sqlite://PATH", args.database_url)).into());
    };
    // SQLite would only report that it cannot open the file.
    if !Path::new(path).is_file() {
        return Err(UsageError(format!("there is no database at {path} (--database-url)")).into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let faults = match runtime.block_on(store::check(path.as_ref())) {
        Ok(faults) => faults,
        Err(error @ store::Error::Corrupt { .. }) => return Err(AnswerIsNo(format!("{path}: {error}")).into()),
        Err(error) => return Err(error.into()),
    };
    match faults.is_empty() {
        true => print(&format!("{path} is whole\n")),
        false => {
            let faults = faults.join("; ");
            Err(AnswerIsNo(format!("{path} is damaged ({faults}); restore it from a backup")).into())
        }
    }
}
