//! Damaged rows of the database: moves the rows that `--quarantine` names to a separate table, and
//! reports them at each start.

use super::config::ServeArgs;
use ballast_base::clock::{Clock, SystemClock};
use ballast_base::metrics;
use ballast_store::{self as store, DamagedRow, Error, Settings, Store, Table};

/// Maximum number of objects that a log line names.
const NAMED_MAX: usize = 10;

/// Moves the damaged rows of the named objects to the quarantine, with a log line for each.
pub async fn set_aside(args: &ServeArgs, tables: &[Table], settings: &Settings) -> Result<(), Error> {
    let (url, named) = (&args.database_url, &args.database.quarantine);
    if named.is_empty() || url == "memory:" {
        return Ok(());
    }
    let name = format!("ballast-quarantine-{}", SystemClock.uuid());
    let damaged = store::quarantine(url, tables, settings, name, named).await?;
    for DamagedRow { key, revision, fault } in &damaged {
        tracing::error!(
            object = %key,
            revision = revision.0,
            fault,
            "an object is lost: its row is damaged, and --quarantine has set it aside in the table quarantine"
        );
    }
    for object in named.iter().filter(|name| damaged.iter().all(|row| row.key.to_string() != **name)) {
        tracing::info!(object, "--quarantine names an object whose row is not damaged: it stays as it is");
    }
    Ok(())
}

/// Reports the rows in the quarantine, of this start and of earlier ones.
pub async fn tell(store: &dyn Store) -> Result<(), Error> {
    let keys = store.set_aside().await?;
    metrics::store_quarantined(keys.len());
    if !keys.is_empty() {
        let objects: Vec<String> = keys.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        tracing::warn!(
            rows = keys.len(),
            objects = objects.join(", "),
            "the database holds damaged rows that were set aside: create their objects again, then empty the table \
             quarantine"
        );
    }
    Ok(())
}
