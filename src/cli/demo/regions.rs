//! Specified replicas (seed 003): a number for each cluster, and a number for each region.

use std::io::Write;

use anyhow::ensure;
use serde_json::Value;

use super::runner::{Example, Part, StoryRunner, replicas_of};
use super::stories::{BINDINGS, replicas, show_status};

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

const WEB: &str = "web-deployment";

pub async fn story<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    runner.step("1. cluster1 is in RegionA, cluster2 and cluster3 are in RegionB.").await?;
    runner.create(&example!("regions/clusters.yaml")).await?;
    for cluster in ["cluster1", "cluster2", "cluster3"] {
        runner.patch("cluster", cluster, Part::Status, &example!("regions/cluster-status.yaml")).await?;
    }

    runner.step("2. Seven replicas, and the user says how many run where: 2, 1 and 4.").await?;
    runner.create(&example!("regions/bindings.yaml")).await?;
    placed(runner, [2, 1, 4]).await?;

    runner.step("3. Eleven: 3 for RegionA, 8 for RegionB. What is added is shared evenly within the region.").await?;
    runner.patch_binding(WEB, Part::Main, &example!("regions/grow.yaml")).await?;
    placed(runner, [3, 3, 5]).await?;

    runner.step("4. Back to where it was.").await?;
    runner.patch_binding(WEB, Part::Main, &example!("regions/as-before.yaml")).await?;
    placed(runner, [2, 1, 4]).await?;

    runner.step("5. Three: 1 for RegionA, 2 for RegionB. What is taken away is shared as well.").await?;
    runner.patch_binding(WEB, Part::Main, &example!("regions/shrink.yaml")).await?;
    placed(runner, [1, 0, 2]).await?;

    runner
        .step("6. Numbers that do not add up to the workload's replicas are not guessed at: nothing is scheduled.")
        .await?;
    runner.patch_binding(WEB, Part::Main, &example!("regions/does-not-add-up.yaml")).await?;
    let refused = |b: &Value| b["status"]["conditions"][0]["status"] == "False";
    let binding = runner.wait_for("the complaint", BINDINGS, WEB, refused).await?;
    let kept = replicas(&[("cluster1", 1), ("cluster3", 2)]);
    ensure!(replicas_of(&binding) == kept, "the replicas moved although the numbers do not add up");
    show_status(runner, "resourcebinding web-deployment", &binding)
}

/// Waits for a placement. A cluster without replicas is not in `spec.clusters` (C16).
async fn placed<W: Write>(runner: &mut StoryRunner<'_, W>, counts: [i64; 3]) -> anyhow::Result<()> {
    let names = ["cluster1", "cluster2", "cluster3"].into_iter().zip(counts);
    let wanted = replicas(&names.filter(|(_, count)| *count > 0).collect::<Vec<_>>());
    runner.wait_for("the placement", BINDINGS, WEB, |b| replicas_of(b) == wanted).await?;
    runner.show_table().await
}
