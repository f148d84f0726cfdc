//! The disk fails once while clients write: it is full, or accepts no byte. No acknowledged write
//! is lost, no rejected write is stored, and one log line reports the failure; this also holds
//! after SIGKILL.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use http::{Method, StatusCode};
use tokio::task::JoinSet;

use crate::process::ServerProcess;
use crate::support::objects::{BINDINGS, binding};
use crate::support::small_disk::run_on_small_disk;
use crate::support::{skipped, wait_for};

/// Set in the child process on the small disk, to its path.
const SMALL_DISK: &str = "BALLAST_TEST_FAILING_DISK";
const WRITERS: usize = 4;
/// The minimum interval between log lines about a failing disk.
const REPEATED_SECONDS: u64 = 10;

/// Clients that create bindings of 10 kB one after the other.
struct Load {
    acknowledged: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Vec<(String, String)>>>,
    has_ended: Arc<AtomicBool>,
    next: Arc<AtomicUsize>,
    writers: JoinSet<()>,
}

impl Load {
    async fn begin(server: &ServerProcess) -> Load {
        let mut load = Load {
            acknowledged: Arc::default(),
            refused: Arc::default(),
            has_ended: Arc::default(),
            next: Arc::default(),
            writers: JoinSet::new(),
        };
        for _ in 0..WRITERS {
            let (client, next) = (server.client().await, Arc::clone(&load.next));
            let (acknowledged, refused) = (Arc::clone(&load.acknowledged), Arc::clone(&load.refused));
            let has_ended = Arc::clone(&load.has_ended);
            load.writers.spawn(async move {
                while !has_ended.load(SeqCst) {
                    let name = format!("web-{}", next.fetch_add(1, SeqCst));
                    let mut object = binding(&name);
                    object["metadata"]["annotations"] = serde_json::json!({"words": "x".repeat(10_000)});
                    match client.post(BINDINGS, &object).await {
                        Ok(_) => acknowledged.lock().unwrap().push(name),
                        Err(error) => refused.lock().unwrap().push((name, error.to_string())),
                    }
                }
            });
        }
        load
    }

    async fn acknowledged(&self) {
        let count = || self.acknowledged.lock().unwrap().len();
        let before = count();
        wait_for("writes", async || (count() >= before + 5 * WRITERS).then_some(())).await;
    }

    async fn refused(&self) {
        let count = || self.refused.lock().unwrap().len();
        let before = count();
        wait_for("refusals", async || (count() >= before + 5 * WRITERS).then_some(())).await;
    }

    async fn end(mut self) -> (Vec<String>, Vec<(String, String)>) {
        self.has_ended.store(true, SeqCst);
        while let Some(ended) = self.writers.join_next().await {
            ended.unwrap();
        }
        (std::mem::take(&mut *self.acknowledged.lock().unwrap()), std::mem::take(&mut *self.refused.lock().unwrap()))
    }
}

/// Lets the disk fail under load, and repairs it. `reason` is in the responses to clients.
async fn fail_once(
    (server, folder, database): (ServerProcess, &Path, &str),
    reason: &str,
    fail: impl FnOnce(),
    mend: impl FnOnce(),
    log: impl Fn() -> String,
) {
    let client = server.client().await;
    let readiness = async || client.send(Method::GET, "/readyz", None, Default::default()).await.unwrap().0;
    let load = Load::begin(&server).await;
    load.acknowledged().await;
    let begun = Instant::now();
    fail();
    load.refused().await;
    wait_for("readiness to fail", async || (readiness().await != StatusCode::OK).then_some(())).await;
    load.refused().await;
    mend();
    load.acknowledged().await;
    wait_for("readiness to return", async || (readiness().await == StatusCode::OK).then_some(())).await;
    let (acknowledged, refused) = load.end().await;

    let lines: Vec<String> =
        log().lines().filter(|line| line.contains("failed to store changes")).map(str::to_owned).collect();
    let most = 1 + usize::try_from(begun.elapsed().as_secs() / REPEATED_SECONDS).unwrap();
    assert!((1..=most).contains(&lines.len()), "{} lines: {}", lines.len(), log());
    let unclear = refused.iter().find(|(_, error)| !(error.starts_with("503") && error.contains(reason)));
    assert_eq!(unclear, None);
    let listed = async |server: &ServerProcess| {
        let list = server.client().await.get(BINDINGS).await.unwrap();
        let names =
            list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        names.collect::<BTreeSet<String>>()
    };
    let expected: BTreeSet<String> = acknowledged.into_iter().collect();
    assert_eq!(listed(&server).await, expected);
    server.kill();
    let server = ServerProcess::start_on(folder, database, &[]);
    assert_eq!(listed(&server).await, expected, "after a restart");
}

#[test]
fn a_disk_that_is_full_once_under_load_loses_nothing() {
    run_on_small_disk("cli::failing_disk::on_the_small_disk", SMALL_DISK, 24);
}

/// Runs in the child process on the small disk. Without its variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_small_disk() {
    let Ok(place) = std::env::var(SMALL_DISK) else { return };
    // The log is on another disk, so that it can be written.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let database = format!("sqlite://{place}/ballast.db");
    let server = ServerProcess::start_on(folder.path(), &database, &[]);
    let filler = Path::new(&place).join("filler");
    let fill = || {
        let all = std::fs::write(&filler, vec![0; 32 << 20]);
        assert!(all.is_err(), "the disk has less room");
    };
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    let mend = || std::fs::remove_file(&filler).unwrap();
    fail_once((server, folder.path(), &database), "the disk is full", fill, mend, log).await;
}

/// The kernel rejects writes to any file: the limit for their size is 0. A pipe has no size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_takes_no_byte_once_under_load_loses_nothing() {
    if !Command::new("prlimit").arg("--version").output().is_ok_and(|it| it.status.success()) {
        return skipped("prlimit is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let said = follow(&folder.path().join("log"));
    let server = ServerProcess::start_with_failing_files(folder.path());
    let id = format!("--pid={}", server.id());
    let limit = |size: &str| {
        let set = Command::new("prlimit").args([&id, &format!("--fsize={size}:unlimited")]).status().unwrap();
        assert!(set.success());
    };
    let database = format!("sqlite://{}", server.database().display());
    let log = || said.lock().unwrap().clone();
    let place = (server, folder.path(), &*database);
    fail_once(place, "the disk failed", || limit("0"), || limit("unlimited"), log).await;
}

/// Creates a pipe at this path, and collects its content.
fn follow(path: &Path) -> Arc<Mutex<String>> {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
    let (said, path) = (Arc::<Mutex<String>>::default(), path.to_owned());
    let collected = Arc::clone(&said);
    std::thread::spawn(move || {
        let pipe = std::fs::File::options().read(true).write(true).open(path).unwrap();
        for line in BufReader::new(pipe).lines() {
            let mut said = collected.lock().unwrap();
            said.push_str(&line.unwrap());
            said.push('\n');
        }
    });
    said
}
