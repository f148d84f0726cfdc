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
use crate::cli::AnswerIsNo;
use crate::cli::embedded::needs_rebalances;
use crate::cli::output::print;
use ballast_api::ballast::v1alpha1::{MoveReason, ReviewStatus, Rollout};
use ballast_api::karmada::cluster::v1alpha1::UNSCHEDULABLE;
use ballast_base::clock::{Clock, SystemClock};
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name_with_same_digits;

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

    /// Bring back what the newest drain of each has taken off it
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

/// Why `-n` is refused for commands that open and close clusters.
const OF_ALL_NAMESPACES: &str = "a cluster is open or closed to workloads of all namespaces: leave -n out";

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
        taint: || json!({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": SystemClock.now()}),
    },
    Family {
        collection: "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
        taint: || json!({"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}),
    },
];

pub async fn cordon(args: CordonArgs) -> anyhow::Result<()> {
    let server = Server::open_any(&args.common).await?;
    server.refuse_namespace(OF_ALL_NAMESPACES)?;
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
    server.refuse_namespace(OF_ALL_NAMESPACES)?;
    let clusters = named(&server, &args.clusters).await?;
    match args.go.dry_run {
        Some(_) => {
            let names = clusters.join(", ");
            print(&format!("{names} would be opened first; until then a plan of the server returns nothing there.\n"))?;
        }
        None => open_clusters(&server, &clusters).await?,
    }
    if !args.returns {
        return Ok(());
    }
    let drains = drains_to_return(&server, &clusters).await?;
    if drains.is_empty() {
        return print("No drain has taken anything off, so nothing is brought back.\n");
    }
    let last = drains.len() - 1;
    let mut stays = None;
    for (index, DrainToReturn { name, clusters, others, .. }) in drains.into_iter().enumerate() {
        let these = clusters.join(", ");
        print(&match others.is_empty() {
            true => format!("\nBack to {these}, what the drain {name} has taken off:\n"),
            false => {
                let others = others.join(", ");
                format!("\nBack to {these}, what the drain {name} has taken off; what left {others} stays away:\n")
            }
        })?;
        let mut go = args.go.clone();
        if index < last && go.dry_run.is_none() {
            // A workload that left twice goes back the way it came.
            (go.wait, go.no_wait) = (true, false);
        }
        let clusters = if others.is_empty() { Vec::new() } else { clusters };
        let (common, rollout) = (args.common.clone(), RolloutArgs::default());
        let undone =
            UndoArgs { rebalance: format!("clusterrebalance/{name}"), clusters, name: None, go, rollout, common };
        match undo(undone).await {
            Ok(()) => {}
            // What stays of one drain keeps nothing of another away.
            Err(error) if error.is::<AnswerIsNo>() => stays = Some(error),
            Err(error) => return Err(error),
        }
    }
    stays.map_or(Ok(()), Err)
}

/// Opens clusters, and ends the drains of them that are in progress.
async fn open_clusters(server: &Server, clusters: &[String]) -> anyhow::Result<()> {
    // A drain that goes on would empty a cluster that is open again.
    for drain in end_drains(server, clusters).await {
        print(&format!("{drain}\n"))?;
    }
    for name in clusters {
        let result = match set(server, name, false).await? {
            true => "uncordoned",
            false => "was not cordoned",
        };
        print(&format!("cluster/{name} {result}\n"))?;
    }
    Ok(())
}

/// Aborts the drains of these clusters that are in progress. Returns a line about each. Where they
/// cannot be aborted, the server ends them, because their clusters are opened.
async fn end_drains(server: &Server, clusters: &[String]) -> Vec<String> {
    let listed = server.list(CLUSTER_REBALANCES, &[]).await.map(|(items, _)| items).unwrap_or_default();
    let mut lines = Vec::new();
    for drain in listed.iter().filter(|item| is_in_progress(item)) {
        let drained = drain["spec"]["drain"]["clusters"].as_array().map_or(&[][..], Vec::as_slice);
        if !drained.iter().any(|name| clusters.iter().any(|cluster| *name == **cluster)) {
            continue;
        }
        let name = drain["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{CLUSTER_REBALANCES}/{}", escaped(name));
        let aborted = server.merge_patch::<Value>(&path, &json!({"spec": {"abort": true}})).await;
        lines.push(match aborted {
            Ok(_) => {
                format!("clusterrebalance/{name} aborted: moves that have begun settle, and no further one begins")
            }
            Err(error) => {
                format!("clusterrebalance/{name} is not aborted ({error}), and ends when its cluster is open")
            }
        });
    }
    lines
}

/// Whether a drain has closed its clusters, and is not over.
fn is_in_progress(drain: &Value) -> bool {
    let is_over = matches!(drain["status"]["phase"].as_str(), Some("Completed" | "Aborted"));
    !is_over && drain["status"]["drain"]["closed"] == true
}

pub async fn drain(args: DrainArgs) -> anyhow::Result<()> {
    let mut server = Server::open_keeping(&args.common, "drain", needs_rebalances).await?;
    server.refuse_namespace(
        "a drain takes workloads of all namespaces off a cluster: leave -n out; for those of one namespace, close the \
         cluster with `ballast cordon`, then `ballast rebalance --placed-on CLUSTER --mode steady -n NAMESPACE`",
    )?;
    server.namespace = None;
    let clusters = named(&server, &args.clusters).await?;
    let mut spec = json!({"drain": {"clusters": clusters}});
    if args.all {
        spec["drain"]["includeDuplicated"] = true.into();
    }
    // The server fills in the rest of it: a drain surges.
    if args.rollout.is_given() {
        spec["rollout"] = args.rollout.over(&Value::Null);
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
        reasons: serde_json::from_value(planned["status"]["reasons"].clone()).unwrap_or_default(),
        ..ReviewStatus::default()
    };
    print(&summary(server.screen, &status, true))?;
    if !args.all && status.reasons.iter().any(|it| it.reason == MoveReason::Duplicated) {
        print("Copies that each cluster runs as a whole leave with --all.\n")?;
    }
    let rollout: Rollout = serde_json::from_value(spec["rollout"].clone()).unwrap_or_default();
    let is = if clusters.len() == 1 { "is" } else { "are" };
    let closes = format!("{} {is} closed to new workloads first.", clusters.join(", "));
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
    let near = closest_name_with_same_digits(name, known.iter().map(String::as_str));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    Err(UsageError(format!("no cluster {name}{hint}")).into())
}

fn is_conflict(error: &anyhow::Error) -> bool {
    error.downcast_ref::<super::server::Refused>().is_some_and(|refused| refused.is(409))
}

/// A drain, and what of it is to be taken back.
#[derive(Debug, PartialEq, Eq)]
struct DrainToReturn {
    /// When it was created and planned, to tell which is the newest: time, revision and name.
    at: (String, i64, String),
    name: String,
    clusters: Vec<String>,
    /// The clusters that it names beside these.
    others: Vec<String>,
}

/// The newest drain of each of these clusters, if it is not taken back already: the newest first.
async fn drains_to_return(server: &Server, clusters: &[String]) -> anyhow::Result<Vec<DrainToReturn>> {
    let (items, _) = server.list(CLUSTER_REBALANCES, &[]).await?;
    Ok(to_return(&items, clusters))
}

fn to_return(rebalances: &[Value], clusters: &[String]) -> Vec<DrainToReturn> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().map(|items| items.iter().map(text).collect()).unwrap_or_default();
    let count = |item: &Value, of: &str| item["status"]["summary"][of].as_i64().unwrap_or_default();
    let moved = |item: &Value| count(item, "replicasMoved") > 0 || count(item, "settled") > 0;
    let is_over = |item: &Value| matches!(item["status"]["phase"].as_str(), Some("Completed" | "Aborted"));
    let mut drains: Vec<DrainToReturn> = Vec::new();
    for cluster in clusters {
        let of_it = rebalances.iter().filter(|item| {
            let drained: Vec<String> = list(&item["spec"]["drain"]["clusters"]);
            drained.contains(cluster) && (moved(item) || is_in_progress(item))
        });
        let at = |item: &Value| {
            let planned = text(&item["status"]["plannedRevision"]).parse().unwrap_or(i64::MAX);
            (text(&item["metadata"]["creationTimestamp"]), planned, text(&item["metadata"]["name"]))
        };
        let Some(drain) = of_it.max_by_key(|item| at(item)) else { continue };
        let (at, name) = (at(drain), text(&drain["metadata"]["name"]));
        let is_undone = rebalances.iter().any(|item| {
            let undo = &item["spec"]["undo"];
            let named: Vec<String> = list(&undo["clusters"]);
            undo["name"] == *name && (named.is_empty() || named.contains(cluster)) && (moved(item) || !is_over(item))
        });
        if is_undone {
            continue;
        }
        match drains.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.others.retain(|other| other != cluster);
                known.clusters.push(cluster.clone());
            }
            None => {
                let mut others: Vec<String> = list(&drain["spec"]["drain"]["clusters"]);
                others.retain(|other| other != cluster);
                drains.push(DrainToReturn { at, name, clusters: vec![cluster.clone()], others });
            }
        }
    }
    drains.sort_by(|one, other| other.at.cmp(&one.at));
    drains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rm40_each_cluster_has_its_newest_drain_back_the_newest_first() {
        let drain = |name: &str, at: &str, clusters: &[&str], moved: i64| {
            json!({
                "metadata": {"name": name, "creationTimestamp": at}, "spec": {"drain": {"clusters": clusters}},
                "status": {"phase": "Completed", "summary": {"replicasMoved": moved}},
            })
        };
        let undo = |name: &str, clusters: &[&str], moved: i64| {
            json!({
                "metadata": {"name": "x"}, "spec": {"undo": {"name": name, "clusters": clusters}},
                "status": {"phase": "Completed", "summary": {"replicasMoved": moved}},
            })
        };
        let mut all = vec![
            drain("first", "2026-01-01T00:00:00Z", &["a", "b"], 4),
            drain("second", "2026-01-02T00:00:00Z", &["c", "a"], 4),
            drain("nothing", "2026-01-03T00:00:00Z", &["a"], 0),
        ];
        let told = |all: &[Value], clusters: &[&str]| {
            let clusters: Vec<String> = clusters.iter().map(|&name| name.to_owned()).collect();
            let drains = to_return(all, &clusters).into_iter();
            let one = |it: DrainToReturn| format!("{} {:?} not {:?}", it.name, it.clusters, it.others);
            drains.map(one).collect::<Vec<_>>()
        };
        let both = [r#"second ["a", "c"] not []"#, r#"first ["b"] not ["a"]"#];
        assert_eq!(told(&all, &["a", "b", "c"]), both);
        assert_eq!(told(&all, &["a"]), [r#"second ["a"] not ["c"]"#]);
        all.push(undo("second", &["a"], 2));
        assert_eq!(told(&all, &["a"]), [""; 0], "an older drain is past");
        assert_eq!(told(&all, &["c"]), [r#"second ["c"] not ["a"]"#]);
        all.push(undo("second", &["c"], 0));
        assert_eq!(told(&all, &["c"]), [r#"second ["c"] not ["a"]"#], "an undo that moved nothing is none");
        all.push(undo("second", &[], 2));
        assert_eq!(told(&all, &["a", "c"]), [""; 0]);
    }
}
