//! PostgreSQL with its tables on a disk that is really full, in a separate mount namespace. If the
//! machine does not support that, the test prints so and passes.

use std::path::Path;
use std::sync::Arc;

use ballast::store;
use ballast::watch::{Atomicity, Limits};

use super::fixtures::*;
use crate::support::postgres::Cluster;
use crate::support::small_disk::run_on_small_disk_as_user;

/// Set in the child process on the small disk, to its path.
const SMALL_DISK: &str = "BALLAST_TEST_SMALL_DISK_OF_POSTGRES";
/// PostgreSQL's own tables take most of it.
const MEGABYTES: u32 = 48;
/// Objects of two kilobytes, more than fit.
const TOO_MANY: usize = 20_000;

#[test]
fn a_database_whose_disk_is_full_is_written_again_when_there_is_space() {
    run_on_small_disk_as_user("store::postgres_full_disk::on_the_small_disk", SMALL_DISK, MEGABYTES);
}

/// Runs in the child process on the small disk. Without its variable it does nothing.
#[tokio::test]
async fn on_the_small_disk() {
    let Ok(place) = std::env::var(SMALL_DISK) else { return };
    let Some(cluster) = Cluster::start_on_disk(Path::new(&place)) else { return };
    let url = cluster.schema().await;
    let store = store::open(&url, &[]).await.unwrap();
    let room = Room::open(Arc::clone(&store), Limits::default()).await;
    // The remainder is filled except for three megabytes.
    let filler = Path::new(&place).join("filler");
    let output = std::process::Command::new("df").args(["--output=avail", "-k"]).arg(&place).output().unwrap();
    let free: usize = String::from_utf8(output.stdout).unwrap().lines().nth(1).unwrap().trim().parse().unwrap();
    let filled = (free << 10).saturating_sub(3 << 20);
    std::fs::write(&filler, vec![0; filled]).unwrap();
    let mut acknowledged = 0;
    for round in 1..3 {
        let answer = room.fill(&mut acknowledged, batch, TOO_MANY).await;
        assert_eq!(answer, "nothing can be written now: the disk of the database is full");
        let probed = store.probe().await.expect_err("nothing that clients write can be stored");
        assert_eq!(probed.reason(), "the disk of the database is full");
        assert_eq!(room.cache.view().count(BINDINGS, None), acknowledged, "round {round}: nothing more than was said");
        assert_eq!(store.bounds().await.unwrap().last.0, acknowledged as i64, "and the log has as much");
        // Space returns, a little more each time.
        std::fs::write(&filler, vec![0; filled - round * (2 << 20)]).unwrap();
        store.probe().await.expect("there is room again");
        let outcomes = room.writer.commit(batch(acknowledged), Atomicity::All).await.unwrap();
        acknowledged += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    }
    drop(store);
    room.close().await;
    let room = Room::open(store::open(&url, &[]).await.unwrap(), Limits::default()).await;
    assert_eq!(room.cache.view().count(BINDINGS, None), acknowledged);
    assert_eq!(room.cache.view().revision.0, acknowledged as i64);
}

/// Ten objects of two kilobytes, which PostgreSQL cannot compress.
fn batch(first: usize) -> Vec<ballast::watch::Write> {
    (first..first + 10)
        .map(|number| {
            let key = binding(&format!("web-{number}"));
            let mut seed = number as u64;
            let mut digits = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("{seed:016x}")
            };
            let mut object = object(&key, 1);
            object.insert("data".into(), (0..125).map(|_| digits()).collect::<String>().into());
            put(&key, object)
        })
        .collect()
}
