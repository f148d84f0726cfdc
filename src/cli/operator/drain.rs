//! `ballast cordon`, `uncordon` and `drain`: close a cluster to new workloads, open it again, and
//! take its workloads off it.

use serde_json::{Map, Value, json};

use super::CommonArgs;
use super::clusters::named;
use super::control::{UndoArgs, told, undo};
use super::limits::RolloutArgs;
use super::preview::summary;
use super::rebalance::{GoArgs, go, object, tried};
use super::server::{Server, escaped};
use crate::cli::embedded::needs_rebalances;
use crate::cli::output::print;
use ballast_api::ballast::v1alpha1::{ReviewStatus, Rollout};
use ballast_api::karmada::cluster::v1alpha1::UNSCHEDULABLE;
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name;

const CLUSTER_REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";

/// How often a cluster is read again that another writer changes at the same time.
const ATTEMPTS_MAX: usize = 10;

#[derive(clap::Args, Debug)]
pub struct CordonArgs {
    /// The clusters: names, or all with `region=eu-west` or another label
    #[arg(value_name = "CLUSTER", required = true)]
    clusters: Vec<String>,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args, Debug)]
pub struct UncordonArgs {
    /// The clusters: names, or all with `region=eu-west` or another label
    #[arg(value_name = "CLUSTER", required = true)]
    clusters: Vec<String>,

    /// Bring back what the newest drain has taken off them
    #[arg(long = "return")]
    returns: bool,

    #[command(flatten)]
    go: GoArgs,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args, Debug)]
pub struct DrainArgs {
    /// The clusters: names, or all with `region=eu-west` or another label
    #[arg(value_name = "CLUSTER", required = true)]
    clusters: Vec<String>,

    /// Also copies of workloads that each cluster runs as a whole, which have no other place
    #[arg(long)]
    all: bool,

    /// Name of the ClusterRebalance. Default: one that the server makes
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    go: GoArgs,

    #[command(flatten)]
    rollout: RolloutArgs,

    #[command(flatten)]
    common: CommonArgs,
}

/// A family of clusters, with the taint that closes them.
struct Family {
    collection: &'static str,
    taint: fn() -> Value,
}

/// Karmada's clusters first, then those of Fleet. The taints are those of `karmadactl cordon` and
/// of Fleet's own tool.
const FAMILIES: [Family; 2] = [
    Family {
        collection: "/apis/cluster.karmada.io/v1alpha1/clusters",
        taint: || json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"}),
    },
    Family {
        collection: "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
        taint: || json!({"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}),
    },
];

pub async fn cordon(args: CordonArgs) -> anyhow::Result<()> {
    let server = Server::open_any(&args.common).await?;
    for name in &named(&server, &args.clusters).await? {
        let told = match set(&server, name, true).await? {
            true => "cordoned: nothing new comes to it, and what runs there stays",
            false => "was cordoned already",
        };
        print(&format!("cluster/{name} {told}\n"))?;
    }
    Ok(())
}

pub async fn uncordon(args: UncordonArgs) -> anyhow::Result<()> {
    let server = Server::open_any(&args.common).await?;
    for name in &named(&server, &args.clusters).await? {
        let told = match set(&server, name, false).await? {
            true => "uncordoned",
            false => "was not cordoned",
        };
        print(&format!("cluster/{name} {told}\n"))?;
    }
    if !args.returns {
        return Ok(());
    }
    let Some(drain) = newest_drain(&server, &named(&server, &args.clusters).await?).await? else {
        return print("No drain has taken anything off, so nothing is brought back.\n");
    };
    let rebalance = format!("clusterrebalance/{drain}");
    undo(UndoArgs { rebalance, go: args.go, rollout: RolloutArgs::default(), common: args.common }).await
}

pub async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let mut server = Server::open_keeping(&args.common, "drain", needs_rebalances).await?;
    // A cluster has workloads of all namespaces.
    server.namespace = None;
    let clusters = named(&server, &args.clusters).await?;
    let mut spec = json!({"drain": {"clusters": clusters}});
    if args.all {
        spec["drain"]["includeDuplicated"] = true.into();
    }
    let own = args.rollout.rollout();
    if own != Rollout::default() {
        spec["rollout"] = json!(own);
    }
    let mut metadata = Map::new();
    match &args.name {
        Some(name) => metadata.insert("name".to_owned(), json!(name)),
        None => metadata.insert("generateName".to_owned(), json!("drain-")),
    };
    let dry_run = format!("{CLUSTER_REBALANCES}?dryRun=All");
    let planned: Value = server.create(&dry_run, &object(&server, metadata.clone(), &spec)).await?;
    let spec = planned["spec"].clone();
    if tried(&server, &args.go, &metadata, &spec).await? {
        return Ok(());
    }
    let status = ReviewStatus {
        summary: serde_json::from_value(planned["status"]["summary"].clone()).unwrap_or_default(),
        clusters: serde_json::from_value(planned["status"]["clusters"].clone()).unwrap_or_default(),
        ..ReviewStatus::default()
    };
    print(&summary(server.screen, &status, true))?;
    let rollout: Rollout = serde_json::from_value(spec["rollout"].clone()).unwrap_or_default();
    let closes = format!("{} is closed to new workloads first.", clusters.join(", "));
    print(&format!("\n{closes} {}\n", told(&rollout)))?;
    go(&server, &args.go, metadata, &spec).await
}

/// Closes a cluster, or opens it. Returns whether it was otherwise before.
async fn set(server: &Server, name: &str, is_closed: bool) -> anyhow::Result<bool> {
    for Family { collection, taint } in FAMILIES {
        let path = format!("{collection}/{}", escaped(name));
        for _ in 0..ATTEMPTS_MAX {
            let Some(cluster) = server.find::<Value>(&path).await? else { break };
            let mut taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let is_it = |known: &Value| known["key"] == taint()["key"] && known["effect"] == "NoSchedule";
            let was_closed = taints.iter().any(is_it);
            if was_closed == is_closed {
                return Ok(false);
            }
            match is_closed {
                true => taints.push(taint()),
                false => taints.retain(|known| !is_it(known)),
            }
            // Another writer's taints are not overwritten.
            let version = &cluster["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            match server.merge_patch::<Value>(&path, &patch).await {
                Ok(_) => return Ok(true),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let mut known = Vec::new();
    for Family { collection, .. } in FAMILIES {
        let listed = server.list(collection, &[]).await.map(|(items, _)| items).unwrap_or_default();
        known.extend(listed.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)));
    }
    let near = closest_name(name, known.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    Err(UsageError(format!("no cluster {name}{hint}")).into())
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<super::server::Refused>().is_some_and(|refused| refused.is(409))
}

/// The name of the newest drain of any of these clusters that no undo has taken back.
async fn newest_drain(server: &Server, clusters: &[String]) -> anyhow::Result<Option<String>> {
    let (items, _) = server.list(CLUSTER_REBALANCES, &[]).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_undone = |name: &str| items.iter().any(|item| item["spec"]["undo"]["name"] == name);
    let names = |item: &Value| {
        let drained = item["spec"]["drain"]["clusters"].as_array().cloned().unwrap_or_default();
        clusters.iter().any(|cluster| drained.contains(&json!(cluster)))
    };
    let drains = items.iter().filter(|item| names(item)).map(|item| {
        let metadata = &item["metadata"];
        (text(&metadata["creationTimestamp"]), text(&metadata["name"]))
    });
    Ok(drains.filter(|(_, name)| !is_undone(name)).max().map(|(_, name)| name))
}
