//! The story of fleet maintenance: a new cluster takes its share with few moves, existing
//! placements stay, a cluster is drained, a price changes, the loss of each cluster is evaluated,
//! and a schedule keeps the fleet balanced.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::ensure;
use serde_json::{Value, json};

use super::runner::{Example, Part, StoryRunner, replicas_of};
use super::stories::BINDINGS;

macro_rules! example {
    ($path:literal) => {
        Example {
            path: concat!("examples/balance/", $path),
            text: include_str!(concat!("../../../examples/balance/", $path)),
        }
    };
}

const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const SCHEDULES: &str = "/apis/ballast.dev/v1alpha1/rebalanceschedules";
/// Number of workloads of four replicas. Each of three clusters gets a third of 36.
const WORKLOADS: usize = 9;
const EVEN: i64 = 12;

pub async fn story<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    let status = example!("cluster-status.yaml");
    runner.step("1. Two clusters of 16 cores, and nine workloads that are divided by room.").await?;
    runner.create(&example!("clusters.yaml")).await?;
    for cluster in ["member1", "member2"] {
        runner.patch("cluster", cluster, Part::Status, &status).await?;
    }
    runner.create_copies(&example!("workloads.yaml"), WORKLOADS).await?;
    for number in 1..=WORKLOADS {
        let is_placed = |binding: &Value| replicas_of(binding).values().sum::<i64>() == 4;
        runner.wait_for("the first placement", BINDINGS, &format!("app-{number}-deployment"), is_placed).await?;
    }
    show(runner).await?;

    runner.step("2. A third cluster joins. Nothing moves by itself: two are at 0.56 and one is at 0.").await?;
    runner.create(&example!("new-cluster.yaml")).await?;
    runner.patch("cluster", "member3", Part::Status, &status).await?;
    runner.expect_nothing_to_move().await?;

    runner.step("3. What would even use take? The answer has a bound: no plan gets below it.").await?;
    let planned = runner.dry_run(&example!("balance.yaml")).await?["status"].take();
    told(runner, &planned)?;

    runner.step("4. Go. Twelve of 36 replicas move, and no replica moves between the two that were there.").await?;
    let done = carried_out(runner, &example!("balance.yaml"), "even").await?;
    ensure!(done["objective"] == planned["objective"], "the plan is another one than the dry run's: {done}");
    ensure!(done["summary"]["replicasMoved"] == EVEN, "another number of replicas has moved: {done}");
    let now = show(runner).await?;
    ensure!(now.values().all(|replicas| *replicas == EVEN), "the clusters are not evenly used: {now:?}");

    runner.step("5. Asked again, there is nothing to gain.").await?;
    let again = carried_out(runner, &example!("again.yaml"), "again").await?;
    ensure!(again["summary"]["toMove"] == 0, "something moves again: {again}");

    runner.step("6. member3 is to be emptied. The objective says where what leaves goes.").await?;
    carried_out(runner, &example!("drain.yaml"), "leave-member3").await?;
    let now = show(runner).await?;
    ensure!(!now.contains_key("member3"), "something has stayed on member3: {now:?}");

    runner.step("7. member1 gets dearer. As much as fits moves to where it costs less.").await?;
    runner.patch("cluster", "member1", Part::Main, &example!("dearer.yaml")).await?;
    let cheap = carried_out(runner, &example!("cheap.yaml"), "cheap").await?;
    let cost = |name: &str| cheap["cost"][name].as_f64().unwrap_or_default();
    ensure!(cost("afterPerHour") < cost("beforePerHour"), "it has not become cheaper: {cheap}");
    show(runner).await?;

    runner.step("8. Would the fleet survive the loss of a cluster? Each loss, the worst first.").await?;
    let told = runner.review(&example!("survive.yaml")).await?["status"]["survival"].take();
    let domains = told.as_array().map_or(&[][..], Vec::as_slice);
    ensure!(domains.len() == 3, "three clusters can be lost: {told}");
    for domain in domains {
        writeln!(runner.out, "  {} lost: {} replicas stranded", domain["name"], domain["strandedReplicas"])?;
    }

    runner.step("9. From now on each night, by moves alone that are worth their replicas.").await?;
    runner.create(&example!("nightly.yaml")).await?;
    let is_ready = |schedule: &Value| schedule["status"]["nextScheduleTime"].is_string();
    runner.wait_for("the next time of the schedule", SCHEDULES, "nightly", is_ready).await.map(|_| ())
}

/// Creates the rebalance of an example, waits for its end, and returns its status.
async fn carried_out<W: Write>(
    runner: &mut StoryRunner<'_, W>,
    example: &Example,
    name: &str,
) -> anyhow::Result<Value> {
    runner.create(example).await?;
    let is_over = |rebalance: &Value| rebalance["status"]["finishTime"].is_string();
    let status = runner.wait_for("the end of the rebalance", REBALANCES, name, is_over).await?["status"].take();
    ensure!(status["phase"] == "Completed", "{name} did not complete: {status}");
    ensure!(status["summary"]["failed"] == 0, "moves of {name} failed: {status}");
    writeln!(runner.out, "$ kubectl get clusterrebalance {name} -o yaml   # of its status:")?;
    told(runner, &status)?;
    Ok(status)
}

fn told<W: Write>(runner: &mut StoryRunner<'_, W>, status: &Value) -> anyhow::Result<()> {
    let shown = json!({"objective": status["objective"], "cost": status["cost"]});
    Ok(write!(runner.out, "{}", serde_saphyr::to_string(&shown)?)?)
}

/// Prints the number of replicas of each cluster.
async fn show<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<BTreeMap<String, i64>> {
    let list = runner.client.get(BINDINGS).await?;
    let mut sums = BTreeMap::new();
    for (cluster, replicas) in list["items"].as_array().into_iter().flatten().flat_map(replicas_of) {
        *sums.entry(cluster).or_insert(0) += replicas;
    }
    let text: Vec<String> = sums.iter().map(|(cluster, replicas)| format!("{cluster}: {replicas}")).collect();
    writeln!(runner.out, "\n  REPLICAS  {}", text.join("  "))?;
    Ok(sums)
}
