//! A RescheduleTask that its request could not finish, and SIGKILL of the leader right after the
//! response: another process finishes it.

use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use serde_json::{Value, json};
use sqlx::Row;
use tokio::task::JoinSet;

use super::clients::{self, BINDINGS};
use super::fleet::Fleet;
use crate::support::postgres::Cluster;
use crate::support::wait_for;

const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";
/// More than one transaction marks, so that an intent remains.
const BINDINGS_COUNT: usize = 2_600;
/// Concurrent creates.
const CREATES: usize = 32;
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause before a request is retried.
const PAUSE: Duration = Duration::from_millis(50);

/// Creates an object as a client does: retries on a server without time for it (503).
async fn create(client: &Client, object: &Value) {
    let begin = Instant::now();
    let mut is_repeated = false;
    loop {
        match client.post(BINDINGS, object).await {
            Ok(_) => return,
            // A request with a 503 response may have been executed.
            Err(error) if is_repeated && error.to_string().starts_with("409") => return,
            Err(error) => assert!(is_unavailable(&error) && begin.elapsed() < PATIENCE, "{error:#}"),
        }
        is_repeated = true;
        tokio::time::sleep(PAUSE).await;
    }
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    error.to_string().starts_with("503")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_finished_by_the_next_leader_and_marks_each_binding_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut fleet = Fleet::over(cluster.schema().await, 2, &["--reschedule-task-marking-duration=0s"]);
    let (first, _) = fleet.leader().await;
    let client = std::sync::Arc::new(fleet.doors.enter(first).await.unwrap());
    let mut creates = JoinSet::new();
    for number in 0..BINDINGS_COUNT {
        if creates.len() == CREATES {
            creates.join_next().await.unwrap().unwrap();
        }
        let client = client.clone();
        creates.spawn(async move {
            let mut binding = clients::binding(&format!("web-{number}"));
            // No scheduler is active, so each change of it is a mark.
            binding["spec"]["schedulerName"] = "nobody".into();
            create(&client, &binding).await;
        });
    }
    while let Some(created) = creates.join_next().await {
        created.unwrap();
    }
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
        "metadata": {"name": "everything"}, "spec": {"targetRefPolicy": [{}]}});
    let mut database = fleet.database().await;
    let intents = "SELECT count(*) FROM changes WHERE kind = 'rescheduleintents.internal.ballast.dev'
         AND operation = $1";
    let begin = Instant::now();
    let leader = loop {
        // The lead may have changed on a machine that was too busy to renew the lease.
        let (leader, _) = fleet.leader().await;
        let client = fleet.doors.enter(leader).await.unwrap();
        let answered = tokio::time::timeout(PATIENCE, client.post(TASKS, &task)).await.expect("it is answered");
        let made: i64 = sqlx::query_scalar(intents).bind("create").fetch_one(&mut database).await.unwrap();
        match answered {
            Ok(_) => assert_eq!(made, 1, "the request left an intent"),
            Err(error) if is_unavailable(&error) && begin.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error:#}"),
        }
        // With an intent the task is accepted, whatever the response was.
        if made == 1 {
            break leader;
        }
    };
    fleet.kill(leader);

    wait_for("the end of the intent", async || {
        let ended: i64 = sqlx::query_scalar(intents).bind("delete").fetch_one(&mut database).await.unwrap();
        (ended == 1).then_some(())
    })
    .await;
    // Each binding was written twice: when it was created, and when it was marked.
    let sql = "SELECT name, count(*) AS marks FROM changes
         WHERE kind = 'resourcebindings.work.karmada.io' AND operation = 'update' GROUP BY name";
    let rows = sqlx::query(sql).fetch_all(&mut database).await.unwrap();
    assert_eq!(rows.len(), BINDINGS_COUNT);
    for row in rows {
        assert_eq!(row.get::<i64, _>("marks"), 1, "{}", row.get::<String, _>("name"));
    }
    let (next, _) = fleet.leader().await;
    assert_ne!(next, leader);
}
