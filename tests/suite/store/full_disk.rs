//! A disk that is really full: a small file system in a separate mount namespace. If the machine
//! does not support that, the test prints so and passes.

use std::path::Path;
use std::sync::Arc;

use ballast::store;
use ballast::watch::{Atomicity, Limits};

use super::fixtures::*;
use crate::support::small_disk::run_on_small_disk;

/// Set in the child process on the small disk, to its path.
const SMALL_DISK: &str = "BALLAST_TEST_SMALL_DISK";
/// Objects of two kilobytes, more than three megabytes in total.
const TOO_MANY: usize = 3000;

#[test]
fn a_server_on_a_full_disk_writes_again_when_there_is_space() {
    run_on_small_disk("store::full_disk::on_the_small_disk", SMALL_DISK, 3);
}

/// Runs in the child process on the small disk. Without its variable it does nothing.
#[tokio::test]
async fn on_the_small_disk() {
    let Ok(place) = std::env::var(SMALL_DISK) else { return };
    let filler = Path::new(&place).join("filler");
    std::fs::write(&filler, vec![0; 1 << 20]).unwrap();
    let url = format!("sqlite://{place}/ballast.db");
    let store = store::open(&url, &[]).await.unwrap();
    let room = Room::open(Arc::clone(&store), Limits::default()).await;
    let mut acknowledged = 0;
    for round in 0..3 {
        let answer = room.fill(&mut acknowledged, batch, TOO_MANY).await;
        assert_eq!(answer, "nothing can be written now: the disk is full");
        // A page can still be written, but not the objects of clients.
        let probed = store.probe().await.expect_err("nothing that clients write can be stored");
        assert_eq!(probed.reason(), "the disk is full");
        assert_eq!(room.cache.view().count(BINDINGS, None), acknowledged, "round {round}: nothing more than was said");
        // Space returns, a little more each time.
        std::fs::write(&filler, vec![0; (1 << 20) - (round + 1) * (300 << 10)]).unwrap();
        let outcomes = room.writer.commit(batch(acknowledged), Atomicity::All).await.unwrap();
        acknowledged += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    }
    std::fs::remove_file(&filler).unwrap();
    store.probe().await.expect("there is room again");
    drop(store);
    room.close().await;
    let room = Room::open(store::open(&url, &[]).await.unwrap(), Limits::default()).await;
    assert_eq!(room.cache.view().count(BINDINGS, None), acknowledged);
    assert_eq!(room.cache.view().revision.0, acknowledged as i64);
}

/// Objects of two kilobytes, ten at once: a transaction of several statements.
fn batch(first: usize) -> Vec<ballast::watch::Write> {
    (first..first + 10)
        .map(|number| {
            let key = binding(&format!("web-{number}"));
            let mut object = object(&key, 1);
            object.insert("data".into(), "x".repeat(2000).into());
            put(&key, object)
        })
        .collect()
}
