//! A RescheduleTask that its request could not finish, and kill -9 of the leader right after the
//! answer: another process finishes it.

use std::time::Duration;

use serde_json::json;
use sqlx::Row;
use tokio::task::JoinSet;

use super::clients::{self, BINDINGS};
use super::fleet::Fleet;
use crate::support::postgres::Cluster;
use crate::support::wait_for;

const TASKS: &str = "/apis/task.karmada.io/v1alpha1/rescheduletasks";
/// More than one transaction marks, so that an intent is left behind.
const BINDINGS_COUNT: usize = 2_600;
/// Creates under way at once.
const CREATES: usize = 32;
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_finished_by_the_next_leader_and_marks_each_binding_once() {
    let Some(cluster) = Cluster::shared() else { return };
    let mut fleet = Fleet::over(cluster.schema().await, 2, &["--reschedule-task-marking-duration=0s"]);
    let (leader, _) = fleet.leader().await;
    let client = std::sync::Arc::new(fleet.doors.enter(leader).await.unwrap());
    let mut creates = JoinSet::new();
    for number in 0..BINDINGS_COUNT {
        if creates.len() == CREATES {
            creates.join_next().await.unwrap().unwrap();
        }
        let client = client.clone();
        creates.spawn(async move {
            let mut binding = clients::binding(&format!("web-{number}"));
            // Nobody schedules it, so that each change of it is a mark.
            binding["spec"]["schedulerName"] = "nobody".into();
            client.post(BINDINGS, &binding).await.unwrap();
        });
    }
    while let Some(created) = creates.join_next().await {
        created.unwrap();
    }
    let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
        "metadata": {"name": "everything"}, "spec": {"targetRefPolicy": [{}]}});
    let answered = tokio::time::timeout(PATIENCE, client.post(TASKS, &task)).await.expect("it is answered");
    answered.unwrap();
    fleet.kill(leader);

    let mut database = fleet.database().await;
    let intents = "SELECT count(*) FROM changes WHERE kind = 'rescheduleintents.internal.ballast.dev'
         AND operation = $1";
    let made: i64 = sqlx::query_scalar(intents).bind("create").fetch_one(&mut database).await.unwrap();
    assert_eq!(made, 1, "the request left an intent");
    wait_for("the end of the intent", async || {
        let ended: i64 = sqlx::query_scalar(intents).bind("delete").fetch_one(&mut database).await.unwrap();
        (ended == 1).then_some(())
    })
    .await;
    // Each binding was written twice: when it was made, and when it was marked.
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
