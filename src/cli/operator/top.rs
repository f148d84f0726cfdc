//! `ballast top`: shows the clusters with their capacity and their ready and missing replicas.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fleet;
use super::names::bindings_in_scope;
use super::server::{Refused, Server};
use super::{CommonArgs, Format, WideFormat};
use crate::cli::embedded::ProfileArgs;
use crate::cli::natural;
use crate::cli::output::{print, stream};
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{
    ClusterCounts, FleetReviewStatus, MovePhase, MoveSpec, MoveStatus, RateFrom, ReplicaCounts, Share,
};
use ballast_api::core;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::human_duration::human_duration;
use ballast_k8s::{Quantity, Time};
use ballast_scheduler::cause::counted;

#[derive(clap::Args, Debug)]
pub struct TopArgs {
    /// Only clusters with these labels: `tier=gold,region!=north`
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: WideFormat,

    /// Refresh every two seconds until interrupted
    #[arg(short = 'w', long)]
    watch: bool,

    #[command(flatten)]
    common: CommonArgs,
}

/// Pause of `--watch`: short enough for interactive use, and long enough for a large fleet.
const WATCH_PAUSE: Duration = Duration::from_secs(2);
/// Moves the cursor home, and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Used and total amount of a resource, in cores, bytes or pieces.
#[derive(Clone, Copy, Debug, Serialize)]
struct Room {
    used: f64,
    allocatable: f64,
    /// The displayed amounts: `used/all`.
    #[serde(skip)]
    shown: (Quantity, Quantity),
}

/// One cluster.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    region: String,
    ready: String,
    /// The time since which `ready` has its value, at earliest the creation of the cluster here: a
    /// condition may be older than the object, for example if both come from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Room>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Room>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<Room>,
    workloads: i64,
    /// The wanted replicas on the cluster: the ready and the missing ones.
    replicas: i64,
    /// The server's counts, without leaving replicas. `None` if the server does not count them, or
    /// the user lacks permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<ReplicaCounts>,
    arriving: i64,
    leaving: i64,
    taints: Vec<String>,
}

pub async fn run(args: TopArgs) -> anyhow::Result<()> {
    if !args.watch {
        return print(&shown(&args).await?);
    }
    let mut out = stream();
    loop {
        let shown = shown(&args).await?;
        let clear = if Screen::of_stdout(args.common.no_color).is_terminal() { CLEAR } else { "" };
        out.write_all(format!("{clear}{shown}").as_bytes())?;
        out.flush()?;
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

async fn shown(args: &TopArgs) -> anyhow::Result<String> {
    let mut server = Server::open(&args.common, ProfileArgs::default()).await?;
    let selector = args.selector.as_deref().unwrap_or_default();
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
    // The replicas of a cluster are counted in all namespaces, unless one is given.
    if args.common.namespace.is_none() {
        server.namespace = None;
    }
    let mut lacking = Vec::new();
    let listed = server.list(path, &[("labelSelector", selector)]).await;
    // A review of a namespace lists the clusters that its workloads are on. It cannot filter by
    // label.
    let listed = match server.namespace.is_some() && selector.is_empty() {
        true => allowed(listed, &mut lacking)?.map(|(items, _)| items),
        false => Some(listed?.0),
    };
    let review = allowed(fleet::ask(&server, server.namespace.as_deref()).await, &mut lacking)?.flatten();
    let mut rows: Vec<Row> = match (&listed, &review) {
        (Some(items), _) => {
            items.iter().filter_map(|item| Cluster::deserialize(item).ok()).map(|it| row(&it)).collect()
        }
        (None, Some(review)) => review.clusters.iter().map(reviewed_row).collect(),
        (None, None) => anyhow::bail!("{}", lacking.join("; ")),
    };
    natural::by_name(&mut rows, |row| &row.name);
    if review.is_none() {
        let bindings = allowed(bindings_in_scope(&server).await, &mut lacking)?;
        count_bindings(&mut rows, &bindings.unwrap_or_default());
    }
    let is_moving = server.namespace.is_some() || is_moving(&server).await?;
    for collection in ["moves", "clustermoves"].into_iter().filter(|_| is_moving) {
        let path = match server.namespace.as_deref().filter(|_| collection == "moves") {
            Some(namespace) => format!("/apis/ballast.dev/v1alpha1/namespaces/{namespace}/{collection}"),
            None => format!("/apis/ballast.dev/v1alpha1/{collection}"),
        };
        // Cluster-scoped moves do not belong to workloads of a namespace.
        if server.namespace.is_some() && collection == "clustermoves" {
            continue;
        }
        let listed = allowed(server.list(&path, &[]).await, &mut lacking)?;
        count_moves(&mut rows, &listed.map(|(items, _)| items).unwrap_or_default());
    }
    if let Some(review) = &review {
        let counted: HashMap<&str, &ClusterCounts> = review.clusters.iter().map(|it| (&*it.name, it)).collect();
        let nothing = ClusterCounts::default();
        for row in &mut rows {
            row.count(counted.get(&*row.name).copied().unwrap_or(&nothing));
        }
    }
    // Labels select clusters, not workloads, so the sums cover the displayed clusters.
    let is_whole = selector.is_empty();
    match args.output.on(&mut server.screen) {
        Format::Table => Ok(table(&server, &rows, review.as_ref().filter(|_| is_whole), &lacking, selector)),
        format => data(&rows, format == Format::Yaml),
    }
}

impl Row {
    /// Adds the counts of the server. `replicas` is the sum of ready and missing ones; leaving ones
    /// are counted separately.
    fn count(&mut self, counted: &ClusterCounts) {
        let ReplicaCounts { workloads, wanted, ready, missing } = counted.replicas;
        let counts =
            ReplicaCounts { workloads, wanted: wanted - counted.leaving, ready: ready - counted.leaving, missing };
        (self.workloads, self.replicas) = (workloads, counts.wanted);
        self.leaving = self.leaving.max(counted.leaving);
        self.arriving = self.arriving.max(counted.arriving);
        self.counts = Some(counts);
    }
}

/// Returns the row of a cluster that the user may not read.
fn reviewed_row(counted: &ClusterCounts) -> Row {
    Row {
        name: counted.name.clone(),
        region: counted.region.clone(),
        ready: if counted.ready.is_empty() { "Unknown".to_owned() } else { counted.ready.clone() },
        since: counted.since,
        ..Row::default()
    }
}

/// Returns whether a rebalance is moving workloads. Moves of finished rebalances are kept for a
/// day, and there may be tens of thousands of them.
async fn is_moving(server: &Server) -> anyhow::Result<bool> {
    for collection in ["clusterrebalances", "rebalances"] {
        let listed = server.list(&format!("/apis/ballast.dev/v1alpha1/{collection}"), &[]).await;
        // Unknown without permission to list them.
        let Some((items, _)) = allowed(listed, &mut Vec::new())? else { return Ok(true) };
        if items.iter().any(|item| item["status"]["summary"]["moving"].as_i64() > Some(0)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `None` if the user lacks permission, and adds the missing permission to `lacking`.
fn allowed<T>(answer: anyhow::Result<T>, lacking: &mut Vec<String>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.downcast::<Refused>() {
            Ok(refused) if refused.is(403) => {
                lacking.push(refused.to_string());
                Ok(None)
            }
            Ok(refused) => Err(refused.into()),
            Err(error) => Err(error),
        },
    }
}

fn row(cluster: &Cluster) -> Row {
    let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let summary = cluster.status.resource_summary.clone().unwrap_or_default();
    let room = |resource: &str| {
        let number =
            |amounts: &Pairs<core::Quantity>| amounts.get(resource).and_then(|it| it.text().parse::<Quantity>().ok());
        let allocatable = number(&summary.allocatable)?;
        let used = number(&summary.allocated).unwrap_or_default();
        let coming = number(&summary.allocating).unwrap_or_default();
        let used = used.plus(coming);
        let plain = |amount: Quantity| amount.nanos() as f64 / 1e9;
        Some(Room { used: plain(used), allocatable: plain(allocatable), shown: (used, allocatable) })
    };
    let taint = |taint: &core::Taint| {
        let value = taint.value.as_deref().filter(|value| !value.is_empty());
        let value = value.map_or_else(String::new, |value| format!("={value}"));
        let effect = serde_json::to_value(taint.effect).unwrap_or_default();
        format!("{}{value}:{}", taint.key, effect.as_str().unwrap_or_default())
    };
    Row {
        name: cluster.metadata.name.clone().unwrap_or_default(),
        region: cluster.spec.region.clone().unwrap_or_default(),
        ready: ready.map_or_else(|| "Unknown".to_owned(), |it| it.status.clone()),
        since: ready.map(|it| it.last_transition_time.max(cluster.metadata.creation_timestamp.unwrap_or_default())),
        cpu: room("cpu"),
        memory: room("memory"),
        pods: room("pods"),
        taints: cluster.spec.taints.iter().map(taint).collect(),
        ..Row::default()
    }
}

/// Formats an amount for display: bytes in binary units, with at most one decimal.
pub fn amount(resource: &str, amount: Quantity) -> String {
    const UNITS: [(&str, f64); 4] =
        [("Ti", (1_u64 << 40) as f64), ("Gi", (1 << 30) as f64), ("Mi", (1 << 20) as f64), ("Ki", 1024.0)];
    if resource != "memory" && !resource.ends_with("storage") {
        return amount.to_string();
    }
    let bytes = amount.units() as f64;
    let unit = UNITS.iter().find(|(_, size)| bytes.abs() >= *size);
    let Some((unit, size)) = unit else { return amount.units().to_string() };
    let shown = format!("{:.1}", bytes / size);
    format!("{}{unit}", shown.trim_end_matches(".0"))
}

fn count_bindings(rows: &mut [Row], bindings: &[AnyBinding]) {
    let mut by_name: BTreeMap<String, &mut Row> = rows.iter_mut().map(|row| (row.name.clone(), row)).collect();
    for binding in bindings {
        for target in &binding.spec.clusters {
            let Some(row) = by_name.get_mut(&*target.name) else { continue };
            row.workloads += 1;
            row.replicas += i64::from(target.replicas.unwrap_or_default());
        }
        for task in &binding.spec.graceful_eviction_tasks {
            let Some(row) = by_name.get_mut(&*task.from_cluster) else { continue };
            row.leaving += i64::from(task.replicas.unwrap_or_default());
        }
    }
}

/// Counts moves in progress: the difference between the planned and the current replicas.
fn count_moves(rows: &mut [Row], items: &[Value]) {
    let mut by_name: HashMap<String, &mut Row> = rows.iter_mut().map(|row| (row.name.clone(), row)).collect();
    for item in items {
        let (Ok(spec), Ok(status)) = (MoveSpec::deserialize(&item["spec"]), MoveStatus::deserialize(&item["status"]))
        else {
            continue;
        };
        if status.phase != Some(MovePhase::Moving) {
            continue;
        }
        let on = |shares: &[Share], name: &str| {
            shares.iter().find(|share| share.name == name).map_or(0, |share| i64::from(share.replicas))
        };
        for share in spec.from.iter().chain(spec.to.iter().filter(|to| on(&spec.from, &to.name) == 0)) {
            let change = on(&spec.to, &share.name) - on(&spec.from, &share.name);
            if let Some(row) = by_name.get_mut(&share.name) {
                row.arriving += change.max(0);
                row.leaving += (-change).max(0);
            }
        }
    }
}

fn table(
    server: &Server,
    rows: &[Row],
    review: Option<&FleetReviewStatus>,
    lacking: &[String],
    selector: &str,
) -> String {
    use Side::{Left, Right};
    if rows.is_empty() {
        let namespace = server.namespace.as_deref().filter(|_| !lacking.is_empty());
        return match (namespace, selector) {
            (Some(namespace), _) => format!("No workload of namespace {namespace} is on a cluster.\n"),
            (None, "") => {
                "No cluster has joined yet. See examples/rebalance/clusters.yaml for how one does.\n".to_owned()
            }
            (None, labels) => format!("No cluster has the labels {labels}.\n"),
        };
    }
    let mut table = Table::new(&[
        ("CLUSTER", Left),
        ("READY", Left),
        ("SINCE", Right),
        ("REGION", Left),
        ("CPU", Right),
        ("MEMORY", Right),
        ("PODS", Right),
        ("WORKLOADS", Right),
        ("REPLICAS", Right),
        ("UP", Right),
        ("MISSING", Right),
        ("ARRIVING", Right),
        ("LEAVING", Right),
        ("TAINTS", Left),
    ]);
    let now = SystemClock.now();
    for row in rows {
        let tone = match &*row.ready {
            "True" => Tone::Good,
            _ => Tone::Bad,
        };
        let since = row.since.map_or_else(String::new, |since| human_duration(now.seconds() - since.seconds()));
        let room = |resource: &str, room: Option<Room>| {
            room.map_or_else(String::new, |Room { shown: (used, all), .. }| {
                format!("{}/{}", amount(resource, used), amount(resource, all))
            })
        };
        let nonzero = |number: i64| if number == 0 { String::new() } else { number.to_string() };
        table.row(vec![
            cell(&row.name).tone(Tone::Strong),
            cell(&row.ready).tone(tone),
            cell(since),
            cell(&row.region),
            cell(room("cpu", row.cpu)),
            cell(room("memory", row.memory)),
            cell(room("pods", row.pods)),
            cell(row.workloads),
            cell(row.replicas),
            cell(row.counts.map_or_else(String::new, |counts| counts.ready.to_string())),
            cell(nonzero(row.counts.map_or(0, |counts| counts.missing))).tone(Tone::Bad),
            cell(nonzero(row.arriving)).tone(Tone::Good),
            cell(nonzero(row.leaving)).tone(Tone::Careful),
            cell(row.taints.join(" ")).tone(Tone::Careful),
        ]);
    }
    let spare = ["SINCE", "WORKLOADS", "REGION", "PODS", "MEMORY", "CPU"];
    let mut text = table.without_empty_columns().with_spare(&spare).on(server.screen);
    let replicas: i64 = rows.iter().map(|row| row.replicas).sum();
    let replicas = review.map_or(replicas, |review| review.replicas.wanted);
    let ready = rows.iter().filter(|row| row.ready == "True").count();
    let sum = format!("{ready} of {} ready, {}", counted(rows.len() as i64, "cluster"), counted(replicas, "replica"));
    text = format!("{text}{}\n", server.screen.paint(Tone::Faint, sum));
    if let Some(review) = review {
        let tone = if review.replicas.missing == 0 { Tone::Faint } else { Tone::Bad };
        let told = format!("Replicas: {}.", fleet::told_replicas(review));
        text = format!("{text}{}\n", server.screen.paint(tone, server.screen.wrapped(&told, 2)));
        // A limit is shown even if nothing waits, because it may have been forgotten.
        let is_limited = review.evictions.rate_from == Some(RateFrom::EvictionLimit);
        let told = fleet::told_evictions(&review.evictions, now);
        if let Some(told) = told.or_else(|| is_limited.then(|| fleet::told_rate(&review.evictions))) {
            text = format!("{text}{}\n", server.screen.wrapped(&told, 2));
        }
    }
    for right in lacking {
        text = format!("{text}{}\n", server.screen.wrapped(&format!("Not shown: {right}"), 2));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_binary_units() {
        let memory = |text: &str| amount("memory", text.parse().unwrap());
        assert_eq!(["128Gi", "1536Mi", "512", "2Ti", "100G"].map(memory), ["128Gi", "1.5Gi", "512", "2Ti", "93.1Gi"]);
        assert_eq!(amount("cpu", "1500m".parse().unwrap()), "1.5".parse::<Quantity>().unwrap().to_string());
    }

    #[test]
    fn leaving_replicas_are_counted_apart() {
        let counts = |wanted, ready| ReplicaCounts { workloads: 1, wanted, ready, missing: wanted - ready };
        let counted = ClusterCounts { replicas: counts(5, 4), leaving: 3, ..ClusterCounts::default() };
        let mut row = Row { replicas: 2, leaving: 3, ..Row::default() };
        row.count(&counted);
        assert_eq!((row.replicas, row.counts, row.leaving), (2, Some(counts(2, 1)), 3));
    }

    #[test]
    fn only_moves_that_are_under_way_arrive_and_leave() {
        let mut rows =
            vec![Row { name: "m1".to_owned(), ..Row::default() }, Row { name: "m2".to_owned(), ..Row::default() }];
        let item = |phase: &str| {
            serde_json::json!({"spec": {"rebalance": "r", "binding": {"kind": "B", "name": "b"},
                "workload": {"kind": "W", "name": "w"}, "replicas": 2, "from": [{"name": "m2", "replicas": 4}],
                "to": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]}, "status": {"phase": phase}})
        };
        count_moves(&mut rows, &[item("Moving"), item("Pending"), item("Settled")]);
        assert_eq!((rows[0].arriving, rows[0].leaving, rows[1].arriving, rows[1].leaving), (2, 0, 0, 2));
    }
}
