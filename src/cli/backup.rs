//! `ballast backup`: copies the database of a running server. The copy is a consistent snapshot.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::output::print;
use ballast_node::UsageError;
use ballast_store as store;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The database, as for `serve`
    #[arg(long, env = "BALLAST_DATABASE_URL", default_value = "sqlite://ballast.db")]
    pub database_url: String,

    /// The file to write the copy to; it must not exist
    pub copy: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if store::is_server(&args.database_url) {
        let text = "a PostgreSQL database is backed up with its own means (pg_dump, a snapshot, WAL archiving); \
                    `ballast copy --from URL --to sqlite://PATH` moves its log to a file";
        return Err(UsageError(text.to_owned()).into());
    }
    let Some(path) = args.database_url.strip_prefix("sqlite://").filter(|path| !path.is_empty()) else {
        return Err(UsageError(format!("--database-url {:?} names no file: sqlite://PATH", args.database_url)).into());
    };
    // SQLite would only report that it cannot open the file.
    if !Path::new(path).is_file() {
        return Err(UsageError(format!("there is no database at {path} (--database-url)")).into());
    }
    if args.copy.exists() {
        return Err(UsageError(format!("{} is there already; name another file", args.copy.display())).into());
    }
    match store::check_header(path.as_ref()) {
        Err(error @ store::Error::Misplaced { .. }) => return Err(UsageError::because(error).into()),
        checked => checked?,
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let last = runtime
        .block_on(store::backup(path.as_ref(), &args.copy))
        .with_context(|| format!("failed to copy {path} to {}", args.copy.display()))?;
    print(&format!("{} holds everything up to revision {last}\n", args.copy.display()))
}
