//! What clients saw, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use sqlx::{PgConnection, Row};
use tokio::sync::watch;

/// Everything that the clients of a test were told.
pub struct History {
    /// The revision in the answer, by the name of what was created.
    acknowledged: Mutex<BTreeMap<String, i64>>,
    /// Names of creates whose answer says that nothing was stored.
    refused: Mutex<BTreeSet<String>>,
    /// Creates that may have been done, with what was said of them.
    doubtful: Mutex<BTreeMap<String, String>>,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Copy)]
pub struct Progress {
    pub acknowledged: usize,
    /// When the write was begun that was begun last of those that were acknowledged.
    pub latest_begin: Instant,
}

impl History {
    pub fn new() -> History {
        let progress = Progress { acknowledged: 0, latest_begin: Instant::now() };
        History {
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
            doubtful: Mutex::default(),
            progress: watch::Sender::new(progress),
        }
    }

    pub fn acknowledge(&self, name: &str, revision: i64, begin: Instant) {
        self.acknowledged.lock().unwrap().insert(name.to_owned(), revision);
        self.progress.send_modify(|progress| {
            progress.acknowledged += 1;
            progress.latest_begin = progress.latest_begin.max(begin);
        });
    }

    /// A create was answered with an error, or not at all.
    pub fn failed(&self, name: &str, error: &anyhow::Error) {
        // These are told to a caller whose write the fence has stopped, or nobody has taken.
        const NOTHING_DONE: [&str; 3] = ["another replica leads", "does not lead", "no replica leads"];
        let text = format!("{error:#}");
        if NOTHING_DONE.iter().any(|said| text.contains(said)) {
            self.refused.lock().unwrap().insert(name.to_owned());
        } else {
            self.doubtful.lock().unwrap().insert(name.to_owned(), text);
        }
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// The creates of which nobody has said what became of them, with what was said instead.
    pub fn doubtful(&self) -> Vec<String> {
        self.doubtful.lock().unwrap().iter().map(|(name, said)| format!("{name}: {said}")).collect()
    }

    /// Holds what was told to what the log has.
    pub fn check(&self, log: &Log) {
        for (name, revision) in &*self.acknowledged.lock().unwrap() {
            let made = log.made.get(name);
            assert_eq!(made, Some(revision), "{name} was acknowledged at {revision}, and the log has it at {made:?}");
        }
        for name in &*self.refused.lock().unwrap() {
            assert_eq!(log.made.get(name), None, "{name} was refused, and is stored");
        }
    }
}

/// The rows of the database.
pub struct Log {
    /// The revision of each create, by its name. Names are unique over all kinds.
    made: BTreeMap<String, i64>,
}

impl Log {
    pub async fn read(database: &mut PgConnection) -> Log {
        let compacted: i64 =
            sqlx::query_scalar("SELECT compacted FROM compaction").fetch_one(&mut *database).await.unwrap();
        assert_eq!(compacted, 0, "the test wants all of the history");
        let sql = "SELECT revision, name, operation FROM changes ORDER BY revision";
        let mut log = Log { made: BTreeMap::new() };
        for (at, row) in sqlx::query(sql).fetch_all(&mut *database).await.unwrap().iter().enumerate() {
            let (revision, name, operation): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
            assert_eq!(revision, at as i64 + 1, "the log has a gap");
            if operation == "create" {
                log.made.insert(name, revision);
            }
        }
        log
    }
}
