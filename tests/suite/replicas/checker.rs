//! Observations of clients, and the invariants over them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use sqlx::{PgConnection, Row};
use tokio::sync::watch;

/// A watch event: the revision, the name and the type.
pub type Seen = (i64, String, String);

/// All observations of the clients of a test.
pub struct History {
    /// The revision in the response, by the name of the created object.
    acknowledged: Mutex<BTreeMap<String, i64>>,
    /// Names of creates with a response that excludes that the object was stored.
    refused: Mutex<BTreeSet<String>>,
    /// Creates with an unknown result, with their responses.
    doubtful: Mutex<BTreeMap<String, String>>,
    /// Violations that a client observed.
    faults: Mutex<Vec<String>>,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Copy)]
pub struct Progress {
    pub acknowledged: usize,
    /// The newest revision that was acknowledged.
    pub newest: i64,
    /// The start of the latest acknowledged write.
    pub latest_begin: Instant,
}

impl History {
    pub fn new() -> History {
        let progress = Progress { acknowledged: 0, newest: 0, latest_begin: Instant::now() };
        History {
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
            doubtful: Mutex::default(),
            faults: Mutex::default(),
            progress: watch::Sender::new(progress),
        }
    }

    pub fn acknowledge(&self, name: &str, revision: i64, begin: Instant) {
        self.acknowledged.lock().unwrap().insert(name.to_owned(), revision);
        self.moved_on(revision, begin);
    }

    /// Records an acknowledged write other than a create.
    pub fn moved_on(&self, revision: i64, begin: Instant) {
        self.progress.send_modify(|progress| {
            progress.acknowledged += 1;
            progress.newest = progress.newest.max(revision);
            progress.latest_begin = progress.latest_begin.max(begin);
        });
    }

    /// Records a create that failed, or had no response.
    pub fn failed(&self, name: &str, error: &anyhow::Error) {
        // The responses to a write that the fence has stopped, or that no replica has accepted.
        const NOTHING_DONE: [&str; 3] = ["another replica leads", "does not lead", "no replica leads"];
        let text = format!("{error:#}");
        if NOTHING_DONE.iter().any(|said| text.contains(said)) {
            self.refused.lock().unwrap().insert(name.to_owned());
        } else {
            self.doubtful.lock().unwrap().insert(name.to_owned(), text);
        }
    }

    pub fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(what);
    }

    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub fn newest(&self) -> i64 {
        self.progress.borrow().newest
    }

    /// Returns the names of acknowledged creates with this prefix.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        self.acknowledged.lock().unwrap().keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// Returns the creates with an unknown result, with their responses.
    pub fn doubtful(&self) -> Vec<String> {
        self.doubtful.lock().unwrap().iter().map(|(name, said)| format!("{name}: {said}")).collect()
    }

    pub fn summary(&self) -> String {
        let (done, refused) = (self.progress.borrow().acknowledged, self.refused.lock().unwrap().len());
        let doubtful = self.doubtful.lock().unwrap().len();
        format!("{done} writes acknowledged, {refused} creates refused, {doubtful} in doubt")
    }

    /// Checks the observations against the log.
    pub fn check(&self, log: &Log) {
        let faults = self.faults.lock().unwrap();
        assert!(faults.is_empty(), "{} faults, the first: {}", faults.len(), faults[0]);
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
    pub last: i64,
    /// The revision of each create, by its name. Names are unique over all kinds.
    made: BTreeMap<String, i64>,
    /// The changes of bindings.
    bindings: Vec<Seen>,
}

impl Log {
    pub async fn read(database: &mut PgConnection) -> Log {
        let compacted: i64 =
            sqlx::query_scalar("SELECT compacted FROM compaction").fetch_one(&mut *database).await.unwrap();
        assert_eq!(compacted, 0, "the test wants all of the history");
        let sql = "SELECT revision, kind, name, operation FROM changes ORDER BY revision";
        let rows = sqlx::query(sql).fetch_all(&mut *database).await.unwrap();
        let mut log = Log { last: rows.len() as i64, made: BTreeMap::new(), bindings: Vec::new() };
        for (at, row) in rows.iter().enumerate() {
            let (revision, kind): (i64, String) = (row.get(0), row.get(1));
            let (name, operation): (String, String) = (row.get(2), row.get(3));
            assert_eq!(revision, at as i64 + 1, "the log has a gap");
            if operation == "create" {
                log.made.insert(name.clone(), revision);
            }
            if kind == "resourcebindings.work.karmada.io" {
                let type_ = match &*operation {
                    "create" => "ADDED",
                    "update" => "MODIFIED",
                    "delete" => "DELETED",
                    other => panic!("{other:?} is no operation"),
                };
                log.bindings.push((revision, name, type_.to_owned()));
            }
        }
        log
    }

    /// The last change of a binding.
    pub fn last_of_bindings(&self) -> i64 {
        self.bindings.last().map_or(0, |(revision, ..)| *revision)
    }

    /// Checks that every change of a binding after `start` was observed once, in order, and nothing
    /// else.
    pub fn check_watch(&self, whose: &str, start: i64, seen: &[Seen]) {
        let expected = self.bindings.iter().filter(|(revision, ..)| *revision > start);
        let mut seen = seen.iter().filter(|(revision, ..)| *revision <= self.last);
        for expected in expected {
            assert_eq!(seen.next(), Some(expected), "{whose}: what comes next of the changes after {start}");
        }
        assert_eq!(seen.next(), None, "{whose}: more than the log has");
    }
}
