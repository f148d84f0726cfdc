//! Stories of failing clusters: a complete failover, and groups of clusters as fallbacks for each
//! other.

use std::io::Write;

use anyhow::ensure;
use serde_json::Value;

use super::runner::{Example, Part, StoryRunner, replicas_of};
use super::stories::{BINDINGS, CLUSTERS, REBALANCERS, is_finished, is_fresh, replicas, show_status};

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Plays a failover: a cluster fails, and its replicas are evicted and replaced. It recovers, and a
/// rebalance returns them.
pub async fn failover<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    const SHOP: &str = "shop-deployment";

    runner.step("1. Three clusters, and a Deployment with 6 replicas, divided by room. (Here the server evicts at once:\n   --failover-eviction-timeout=0s. By default it gives a lost cluster five minutes.)").await?;
    runner.create(&example!("failover/clusters.yaml")).await?;
    for cluster in ["member1", "member2", "member3"] {
        runner.patch("cluster", cluster, Part::Status, &example!("failover/cluster-is-ready.yaml")).await?;
    }
    runner.create(&example!("failover/bindings.yaml")).await?;
    let everywhere = replicas(&[("member1", 2), ("member2", 2), ("member3", 2)]);
    runner.wait_for("the first placement", BINDINGS, SHOP, |b| replicas_of(b) == everywhere).await?;
    runner.show_table().await?;

    runner
        .step("2. member1 is lost: its condition Ready says so. It is tainted, and what runs there is evicted.")
        .await?;
    runner.patch("cluster", "member1", Part::Status, &example!("failover/cluster-is-lost.yaml")).await?;
    let tainted = |cluster: &Value| cluster["spec"]["taints"].as_array().is_some_and(|taints| taints.len() == 2);
    let lost = runner.wait_for("the taints", CLUSTERS, "member1", tainted).await?;
    show(runner, "cluster member1", "taints", &lost["spec"]["taints"])?;
    let fled = replicas(&[("member2", 3), ("member3", 3)]);
    let evicted = runner.wait_for("the flight", BINDINGS, SHOP, |b| replicas_of(b) == fled).await?;
    runner.show_table().await?;
    show(runner, "resourcebinding shop-deployment", "eviction tasks", &evicted["spec"]["gracefulEvictionTasks"])?;
    ensure!(evicted["spec"]["gracefulEvictionTasks"][0]["fromCluster"] == "member1", "no task says what left");

    runner.step("3. The replacements report that they are healthy, and the eviction is over.").await?;
    runner.patch_binding(SHOP, Part::Status, &example!("failover/replacement-is-healthy.yaml")).await?;
    let is_over = |b: &Value| b["spec"].get("gracefulEvictionTasks").is_none();
    runner.wait_for("the end of the eviction", BINDINGS, SHOP, is_over).await?;
    runner.wait_for_event("EvictWorkloadFromClusterSucceed").await?;
    runner.show_events(EVENTS).await?;

    runner.step("4. member1 is back, and its taints go. No replica moves by itself.").await?;
    runner.patch("cluster", "member1", Part::Status, &example!("failover/cluster-is-back.yaml")).await?;
    runner.wait_for("the end of the taints", CLUSTERS, "member1", |c| c["spec"].get("taints").is_none()).await?;
    runner.expect_nothing_to_move().await?;

    runner.step("5. \"Rebalance this.\"").await?;
    runner.create(&example!("failover/rebalancer.yaml")).await?;
    runner.wait_for("the way home", BINDINGS, SHOP, |b| replicas_of(b) == everywhere && is_fresh(b)).await?;
    let done = runner.wait_for("the rebalancer's status", REBALANCERS, "bring-shop-back", is_finished).await?;
    runner.show_table().await?;
    show_status(runner, "workloadrebalancer bring-shop-back", &done)
}

/// Plays both user stories of multiple scheduling groups: private clusters before rented ones, and
/// a primary before its backup.
pub async fn groups<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    const SMALL: &str = "small-deployment";
    const LARGE: &str = "large-deployment";
    let group = |b: &Value| b["status"]["schedulerObservingAffinityName"].as_str().unwrap_or_default().to_owned();
    let is_in = |name: &'static str, cluster: &'static str, count: i64| {
        move |b: &Value| group(b) == name && replicas_of(b) == replicas(&[(cluster, count)])
    };
    let (local, rented) = ("local-data-center", "managed-by-cloud-provider");

    runner.step("1. A private cluster with little room, and one in a cloud with plenty.").await?;
    runner.create(&example!("groups/clusters.yaml")).await?;
    runner.patch("cluster", "private", Part::Status, &example!("groups/private-status.yaml")).await?;
    runner.patch("cluster", "cloud", Part::Status, &example!("groups/cloud-status.yaml")).await?;

    runner.step("2. Two groups, tried in order: the private cluster saves costs, and the cloud is the backup. What is small\n   fits into the first group, what is large does not.").await?;
    runner.create(&example!("groups/bindings.yaml")).await?;
    runner.wait_for("the small one's placement", BINDINGS, SMALL, is_in(local, "private", 3)).await?;
    runner.wait_for("the large one's placement", BINDINGS, LARGE, is_in(rented, "cloud", 9)).await?;
    runner.show_table().await?;

    runner.step("3. The data center loses power. What ran there goes on in the next group.").await?;
    runner.patch("cluster", "private", Part::Main, &example!("groups/private-fails.yaml")).await?;
    runner.wait_for("the flight to the cloud", BINDINGS, SMALL, is_in(rented, "cloud", 3)).await?;
    runner.show_table().await?;

    runner.step("4. The power is back. A scheduler that is not asked stays in the group where it is.").await?;
    runner.patch("cluster", "private", Part::Main, &example!("groups/private-recovers.yaml")).await?;
    runner.expect_nothing_to_move().await?;

    runner.step("5. Asked, it begins with the first group again. What does not fit there stays in the cloud.").await?;
    runner.create(&example!("groups/rebalancer.yaml")).await?;
    let home = is_in(local, "private", 3);
    let back = runner.wait_for("the way home", BINDINGS, SMALL, |b| home(b) && is_fresh(b)).await?;
    let stays = is_in(rented, "cloud", 9);
    runner.wait_for("the large one's pass", BINDINGS, LARGE, |b| stays(b) && is_fresh(b)).await?;
    runner.show_table().await?;
    show_status(runner, "resourcebinding small-deployment", &back)
}

fn show<W: Write>(runner: &mut StoryRunner<'_, W>, what: &str, part: &str, value: &Value) -> anyhow::Result<()> {
    writeln!(runner.out, "\n$ kubectl get {what} -o yaml   # its {part}:")?;
    Ok(write!(runner.out, "{}", serde_saphyr::to_string(value)?)?)
}
