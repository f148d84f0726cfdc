//! The story of the KubeFleet family: a placement selects the best two of four clusters, grows,
//! loses a cluster, ignores other changes of the clusters, and moves when its policy changes.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::ensure;
use serde_json::Value;

use super::runner::{Example, Part, StoryRunner};

macro_rules! example {
    ($path:literal) => {
        Example {
            path: concat!("examples/fleet/", $path),
            text: include_str!(concat!("../../../examples/fleet/", $path)),
        }
    };
}

const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const BINDINGS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
const PLACEMENT: &str = "shop";

pub async fn story<W: Write>(runner: &mut StoryRunner<'_, W>) -> anyhow::Result<()> {
    runner.step("1. Four member clusters join. (Their agents are played by the demo: they say hello, and report what\n   they would have applied.)").await?;
    runner.create(&example!("clusters.yaml")).await?;
    for cluster in ["east-1", "east-2", "west-1", "west-2"] {
        runner.wait_for("an agent's hello", CLUSTERS, cluster, |cluster| has(cluster, "Joined")).await?;
    }

    runner
        .step("2. PickN 2: gold clusters rather than others, never two more in one region than in the other.")
        .await?;
    runner.create(&example!("placement.yaml")).await?;
    on_clusters(runner, &["east-2", "west-1"]).await?;

    runner.step("3. Scale to 3: one is added, and the two that are there are not touched.").await?;
    let before = versions(runner).await?;
    runner.patch("clusterresourceplacement", PLACEMENT, Part::Main, &example!("three-clusters.yaml")).await?;
    on_clusters(runner, &["east-1", "east-2", "west-1"]).await?;
    let after = versions(runner).await?;
    ensure!(before.iter().all(|(name, version)| after.get(name) == Some(version)), "a binding was touched");

    runner.step("4. east-2 leaves the fleet. It is replaced first, and given up then: maxUnavailable is 0.").await?;
    runner.delete("membercluster", "east-2").await?;
    runner.wait_gone(CLUSTERS, "east-2").await?;
    on_clusters(runner, &["east-1", "west-1", "west-2"]).await?;

    runner.step("5. east-1 is gold no more. What is placed is not judged again: nothing moves.").await?;
    let before = versions(runner).await?;
    runner.patch("membercluster", "east-1", Part::Main, &example!("east-1-is-tin.yaml")).await?;
    runner.patch("membercluster", "west-2", Part::Main, &example!("west-2-is-gold.yaml")).await?;
    runner.expect_no_event(BINDINGS, "clusterresourcebindings").await?;
    on_clusters(runner, &["east-1", "west-1", "west-2"]).await?;
    ensure!(before == versions(runner).await?, "a binding was touched");

    runner.step("6. The policy changes: two clusters, in the west. Now things move, by the rollout strategy.").await?;
    runner.patch("clusterresourceplacement", PLACEMENT, Part::Main, &example!("west-only.yaml")).await?;
    on_clusters(runner, &["west-1", "west-2"]).await
}

/// Waits until the placement is available on exactly these clusters, and prints its bindings.
async fn on_clusters<W: Write>(runner: &mut StoryRunner<'_, W>, expected: &[&str]) -> anyhow::Result<()> {
    let is_done = |placement: &Value| {
        let statuses = placement["status"]["placementStatuses"].as_array().into_iter().flatten();
        let mut clusters: Vec<&str> = statuses.filter_map(|status| status["clusterName"].as_str()).collect();
        clusters.sort_unstable();
        clusters == expected && has(placement, "ClusterResourcePlacementAvailable")
    };
    let placement = runner.wait_for("the rollout", PLACEMENTS, PLACEMENT, is_done).await?;
    let states = loop {
        let list = runner.client.get(BINDINGS).await?;
        let surplus = list["items"].as_array().into_iter().flatten().find(|binding| {
            !binding["spec"]["targetCluster"].as_str().is_some_and(|cluster| expected.contains(&cluster))
        });
        match surplus.and_then(|binding| binding["metadata"]["name"].as_str()) {
            Some(name) => runner.wait_gone(BINDINGS, name).await?,
            None => break states(&list),
        }
    };
    show(runner, &placement, &states).await
}

async fn show<W: Write>(
    runner: &mut StoryRunner<'_, W>,
    placement: &Value,
    states: &BTreeMap<String, String>,
) -> anyhow::Result<()> {
    let clusters = runner.names(CLUSTERS).await?;
    write!(runner.out, "\n  {:9}", "PLACEMENT")?;
    for cluster in clusters.iter().map(String::as_str).chain(["SCHEDULED", "AVAILABLE"]) {
        write!(runner.out, "  {cluster:9}")?;
    }
    write!(runner.out, "\n  {PLACEMENT:9}")?;
    for cluster in &clusters {
        write!(runner.out, "  {:9}", states.get(cluster).map_or("-", String::as_str))?;
    }
    for type_ in ["ClusterResourcePlacementScheduled", "ClusterResourcePlacementAvailable"] {
        write!(runner.out, "  {:9}", if has(placement, type_) { "True" } else { "-" })?;
    }
    Ok(writeln!(runner.out)?)
}

/// Returns the state of the binding on each cluster.
fn states(list: &Value) -> BTreeMap<String, String> {
    let bindings = list["items"].as_array().into_iter().flatten().map(|binding| &binding["spec"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    bindings.map(|spec| (text(&spec["targetCluster"]), text(&spec["state"]))).collect()
}

async fn versions<W: Write>(runner: &StoryRunner<'_, W>) -> anyhow::Result<BTreeMap<String, String>> {
    let list = runner.client.get(BINDINGS).await?;
    let bindings = list["items"].as_array().into_iter().flatten().map(|binding| &binding["metadata"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(bindings.map(|metadata| (text(&metadata["name"]), text(&metadata["resourceVersion"]))).collect())
}

/// Returns whether the condition is True for the current generation of the object.
fn has(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let generation = &object["metadata"]["generation"];
    conditions
        .into_iter()
        .any(|told| told["type"] == type_ && told["status"] == "True" && told["observedGeneration"] == *generation)
}
