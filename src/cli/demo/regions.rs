//! Specified replicas (seed 003): a number for each cluster, and a number for each region.

use std::io::Write;

use anyhow::ensure;
use serde_json::Value;

use super::stage::{Example, Part, Stage, replicas_of};
use super::stories::{BINDINGS, replicas, show_status};

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

const WEB: &str = "web-deployment";

pub async fn story<W: Write>(stage: &mut Stage<'_, W>) -> anyhow::Result<()> {
    stage.step("1. cluster1 is in RegionA, cluster2 and cluster3 are in RegionB.").await?;
    stage.create(&example!("regions/clusters.yaml")).await?;
    for cluster in ["cluster1", "cluster2", "cluster3"] {
        stage.patch("cluster", cluster, Part::Status, &example!("regions/cluster-status.yaml")).await?;
    }

    stage.step("2. Seven replicas, and the user says how many run where: 2, 1 and 4.").await?;
    stage.create(&example!("regions/bindings.yaml")).await?;
    placed(stage, [2, 1, 4]).await?;

    stage.step("3. Eleven: 3 for RegionA, 8 for RegionB. What is added is shared evenly within the region.").await?;
    stage.patch_binding(WEB, Part::Main, &example!("regions/grow.yaml")).await?;
    placed(stage, [3, 3, 5]).await?;

    stage.step("4. Back to where it was.").await?;
    stage.patch_binding(WEB, Part::Main, &example!("regions/as-before.yaml")).await?;
    placed(stage, [2, 1, 4]).await?;

    stage.step("5. Three: 1 for RegionA, 2 for RegionB. What is taken away is shared as well.").await?;
    stage.patch_binding(WEB, Part::Main, &example!("regions/shrink.yaml")).await?;
    placed(stage, [1, 0, 2]).await?;

    stage
        .step("6. Numbers that do not add up to the workload's replicas are not guessed at: nothing is scheduled.")
        .await?;
    stage.patch_binding(WEB, Part::Main, &example!("regions/does-not-add-up.yaml")).await?;
    let refused = |b: &Value| b["status"]["conditions"][0]["status"] == "False";
    let binding = stage.wait_for("the complaint", BINDINGS, WEB, refused).await?;
    let kept = replicas(&[("cluster1", 1), ("cluster3", 2)]);
    ensure!(replicas_of(&binding) == kept, "the replicas moved although the numbers do not add up");
    show_status(stage, "resourcebinding web-deployment", &binding)
}

/// A cluster without replicas is not in `spec.clusters` (C16).
async fn placed<W: Write>(stage: &mut Stage<'_, W>, counts: [i64; 3]) -> anyhow::Result<()> {
    let names = ["cluster1", "cluster2", "cluster3"].into_iter().zip(counts);
    let wanted = replicas(&names.filter(|(_, count)| *count > 0).collect::<Vec<_>>());
    stage.wait_for("the placement", BINDINGS, WEB, |b| replicas_of(b) == wanted).await?;
    stage.show_table().await
}
