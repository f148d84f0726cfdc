//! The stories of the seed documents, step by step. A story fails if the final placements differ
//! from the seed document.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::ensure;
use serde_json::Value;

use super::runner::{Example, Part, StoryRunner, replicas_of};
use ballast_api::karmada::work::v1alpha2::PENDING_PASS;

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const CLUSTER_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings";
pub const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
pub const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";

/// Plays user story 1 of WorkloadRebalancer: a cluster fails and recovers; one object returns the
/// replicas.
pub async fn rebalance<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    const DEPLOYMENT: &str = "demo-deploy-1-deployment";

    runner.step("1. Two clusters join the fleet, and report what they serve and the room they have.").await?;
    runner.create(&example!("rebalance/clusters.yaml")).await?;
    for cluster in ["member1", "member2"] {
        runner.patch("cluster", cluster, Part::Status, &example!("rebalance/cluster-status.yaml")).await?;
    }

    runner.step("2. A Deployment with 4 replicas, divided by room, and a ClusterRole are to be placed.").await?;
    runner.create(&example!("rebalance/bindings.yaml")).await?;
    let placed = replicas(&[("member1", 2), ("member2", 2)]);
    let home = runner.wait_for("the first placement", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == placed).await?;
    let on_both = replicas(&[("member1", 0), ("member2", 0)]);
    runner
        .wait_for("the ClusterRole's placement", CLUSTER_BINDINGS, "demo-role-clusterrole", |b| {
            replicas_of(b) == on_both
        })
        .await?;
    runner.show_table().await?;

    runner.step("3. member1 is lost: it gets the not-ready taint, and its replicas flee.").await?;
    runner.patch("cluster", "member1", Part::Main, &example!("rebalance/member1-fails.yaml")).await?;
    let fled = replicas(&[("member2", 4)]);
    runner.wait_for("the flight to member2", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == fled).await?;
    let role_fled = replicas(&[("member2", 0)]);
    runner
        .wait_for("the ClusterRole's flight", CLUSTER_BINDINGS, "demo-role-clusterrole", |b| {
            replicas_of(b) == role_fled
        })
        .await?;
    runner.show_table().await?;

    runner.step("4. member1 recovers. Placements are inert by design: no replica moves. (The ClusterRole, which is\n   copied and not divided, reaches every cluster that fits.)").await?;
    runner.patch("cluster", "member1", Part::Main, &example!("rebalance/member1-recovers.yaml")).await?;
    runner.expect_nothing_to_move().await?;
    runner.show_table().await?;

    runner.step("5. \"Rebalance these.\" demo-deploy-2 does not exist; the status will say so.").await?;
    runner.create(&example!("rebalance/rebalancer.yaml")).await?;
    let back =
        runner.wait_for("the way home", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == placed && is_fresh(b)).await?;
    runner
        .wait_for("the ClusterRole's way home", CLUSTER_BINDINGS, "demo-role-clusterrole", |b| {
            replicas_of(b) == on_both
        })
        .await?;
    ensure!(replicas_of(&home) == replicas_of(&back), "the replicas did not come back to where they were");
    let done = runner.wait_for("the rebalancer's status", REBALANCERS, "demo", is_finished).await?;
    runner.show_table().await?;
    show_status(runner, "workloadrebalancer demo", &done)?;

    runner.step("6. With a time to live, it cleans up after itself.").await?;
    runner.patch("workloadrebalancer", "demo", Part::Main, &example!("rebalance/clean-up.yaml")).await?;
    runner.wait_gone(REBALANCERS, "demo").await?;
    writeln!(runner.out, "$ kubectl get workloadrebalancers\nNo resources found")?;
    Ok(())
}

/// Plays the story of RescheduleTask: nginx moved from the primary cluster to the backup, and a
/// task returns it.
pub async fn task<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    const NGINX: &str = "nginx-deployment";

    runner.step("1. A primary cluster and its backup join the fleet.").await?;
    runner.create(&example!("task/clusters.yaml")).await?;
    for cluster in ["primary", "backup"] {
        runner.patch("cluster", cluster, Part::Status, &example!("task/cluster-status.yaml")).await?;
    }

    runner.step("2. nginx belongs on the primary; the backup is the second of two groups.").await?;
    runner.create(&example!("task/bindings.yaml")).await?;
    let on_primary = replicas(&[("primary", 3)]);
    runner.wait_for("the first placement", BINDINGS, NGINX, |b| replicas_of(b) == on_primary).await?;
    runner.show_table().await?;

    runner.step("3. The primary is lost, and nginx flees to the backup.").await?;
    runner.patch("cluster", "primary", Part::Main, &example!("task/primary-fails.yaml")).await?;
    let on_backup = replicas(&[("backup", 3)]);
    runner.wait_for("the flight to the backup", BINDINGS, NGINX, |b| replicas_of(b) == on_backup).await?;
    runner.show_table().await?;

    runner.step("4. The primary is restored. Nothing moves, and the backup goes on costing money.").await?;
    runner.patch("cluster", "primary", Part::Main, &example!("task/primary-recovers.yaml")).await?;
    runner.expect_nothing_to_move().await?;

    runner.step("5. A RescheduleTask starts the way back. It acts on create and is never stored.").await?;
    runner.create(&example!("task/reschedule-task.yaml")).await?;
    let back =
        runner.wait_for("the way back", BINDINGS, NGINX, |b| replicas_of(b) == on_primary && is_fresh(b)).await?;
    runner.show_table().await?;
    ensure!(back["spec"].get("forceRescheduling").is_none(), "the mark was not unset together with the result");
    show_status(runner, "resourcebinding nginx-deployment -n default", &back)
}

pub fn show_status<W: Write>(runner: &mut StoryRunner<'_, W>, what: &str, object: &Value) -> anyhow::Result<()> {
    writeln!(runner.out, "\n$ kubectl get {what} -o yaml   # its status:")?;
    let yaml = serde_saphyr::to_string(&object["status"])?;
    Ok(write!(runner.out, "{yaml}")?)
}

pub fn replicas(counts: &[(&str, i64)]) -> BTreeMap<String, i64> {
    counts.iter().map(|&(cluster, count)| (cluster.to_owned(), count)).collect()
}

/// Returns whether there was a trigger, and it was handled (R53). Times in RFC 3339 UTC sort as
/// text.
pub fn is_fresh(binding: &Value) -> bool {
    let triggered = binding["spec"]["rescheduleTriggeredAt"].as_str();
    let scheduled = binding["status"]["lastScheduledTime"].as_str();
    let is_pending = !binding["metadata"]["annotations"][PENDING_PASS].is_null();
    triggered.is_some() && triggered <= scheduled && !is_pending && binding["spec"].get("forceRescheduling").is_none()
}

pub fn is_finished(rebalancer: &Value) -> bool {
    let status = &rebalancer["status"];
    status["finishTime"].is_string() && status["observedGeneration"] == rebalancer["metadata"]["generation"]
}
