//! `ballast pause`, `resume`, `abort`, `approve` and `undo`: steer a rebalance that is there.

use serde_json::{Map, Value, json};

use super::CommonArgs;
use super::follow::{RebalanceRef, follow};
use super::limits::RolloutArgs;
use super::preview::{as_asked_in, summary_in};
use super::rebalance::{GoArgs, go, object, rollout_of, tried};
use super::server::{Refused, Server, escaped};
use crate::cli::AnswerIsNo;
use crate::cli::embedded::needs_rebalances;
use crate::cli::output::print;
use ballast_api::ballast::v1alpha1::{APPROVED_BY, ReviewMode, ReviewStatus, Rollout, Strategy};
use ballast_node::UsageError;
use ballast_rebalance::suggestion::closest_name_with_same_digits;

const API: &str = "/apis/ballast.dev/v1alpha1";

#[derive(clap::Args, Debug)]
pub struct ControlArgs {
    /// The rebalance: its name, or `clusterrebalance/NAME` where a Rebalance has the same name
    #[arg(value_name = "NAME")]
    rebalance: String,

    /// Wait until it is over
    #[arg(long, visible_alias = "follow")]
    wait: bool,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Args, Debug)]
pub struct UndoArgs {
    /// The rebalance: its name, or `clusterrebalance/NAME` where a Rebalance has the same name
    #[arg(value_name = "NAME")]
    pub rebalance: String,

    /// Only what was taken off these clusters goes back
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    pub clusters: Vec<String>,

    /// Name of the rebalance that takes it back. Default: one that the server makes
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    #[command(flatten)]
    pub go: GoArgs,

    #[command(flatten)]
    pub rollout: RolloutArgs,

    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAction {
    Pause,
    Resume,
    Abort,
    Approve,
}

impl ControlAction {
    fn patch(self) -> Value {
        match self {
            ControlAction::Pause => json!({"spec": {"paused": true}}),
            ControlAction::Resume => json!({"spec": {"paused": false}}),
            ControlAction::Abort => json!({"spec": {"abort": true}}),
            ControlAction::Approve => json!({"spec": {"approved": true}}),
        }
    }

    fn command(self) -> &'static str {
        match self {
            ControlAction::Pause => "pause",
            ControlAction::Resume => "resume",
            ControlAction::Abort => "abort",
            ControlAction::Approve => "approve",
        }
    }

    fn done(self) -> &'static str {
        match self {
            ControlAction::Pause => "paused: moves that have begun settle, and no further one begins",
            ControlAction::Resume => "resumed",
            ControlAction::Abort => "aborted: moves that have begun settle, and no further one begins",
            ControlAction::Approve => "approved",
        }
    }
}

pub async fn run(args: ControlArgs, action: ControlAction) -> anyhow::Result<()> {
    let server = Server::open_keeping(&args.common, action.command(), needs_rebalances).await?;
    let (place, object) = find(&server, &args.rebalance).await?;
    let phase = object["status"]["phase"].as_str().unwrap_or("Planning");
    if matches!(phase, "Completed" | "Aborted") {
        anyhow::bail!("{} is {phase} already; `ballast undo {}` takes it back", place.shown(), place.argument(&server));
    }
    if action == ControlAction::Approve && object["spec"]["approval"] != "Required" {
        anyhow::bail!("{} asks for no approval", place.shown());
    }
    if action == ControlAction::Approve && object["spec"]["approved"] == true {
        let by = object["metadata"]["annotations"][APPROVED_BY].as_str();
        let by = by.map_or_else(String::new, |user| format!(" by {user}"));
        return print(&format!("{} is approved already{by}, and is {phase}\n", place.shown()));
    }
    if action == ControlAction::Resume && phase == "Paused" && object["spec"]["paused"] != true {
        // A gate has paused it. It is asked anew after a pause and its end.
        let _paused: Value = server.merge_patch(&place.path(), &ControlAction::Pause.patch()).await?;
    }
    let _patched: Value = server.merge_patch(&place.path(), &action.patch()).await?;
    print(&format!("{} {}\n", place.shown(), action.done()))?;
    if action == ControlAction::Abort && object["status"]["drain"]["closed"] == true {
        let clusters = object["spec"]["drain"]["clusters"].as_array().map_or(&[][..], Vec::as_slice);
        let names: Vec<&str> = clusters.iter().filter_map(Value::as_str).collect();
        print(&format!("The clusters stay closed to new workloads: ballast uncordon {}\n", names.join(" ")))?;
    }
    if args.wait { follow(&server, &place).await } else { Ok(()) }
}

/// Creates the rebalance that takes another one back.
pub async fn undo(args: UndoArgs) -> anyhow::Result<()> {
    let mut server = Server::open_keeping(&args.common, "undo", needs_rebalances).await?;
    let (place, undone) = find(&server, &args.rebalance).await?;
    // An undo has the kind and the namespace of what it takes back.
    server.namespace = undone["metadata"]["namespace"].as_str().map(str::to_owned);
    let mut spec = json!({"undo": {"name": place.name}});
    if !args.clusters.is_empty() {
        spec["undo"]["clusters"] = json!(args.clusters);
    }
    let mut metadata = Map::new();
    match &args.name {
        Some(name) => metadata.insert("name".to_owned(), json!(name)),
        None => metadata.insert("generateName".to_owned(), json!(format!("{}-undo-", place.name))),
    };
    if args.rollout.is_given() {
        spec["rollout"] = args.rollout.over(&rollout_of(&server, &metadata, &spec).await?);
    }
    let asked = object(&server, metadata.clone(), &spec);
    let planned: Value = server.create(&format!("{}?dryRun=All", place.collection), &asked).await?;
    // The server has filled in what the undo takes over.
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
    if let Some(why) = not_planned(&planned) {
        return Err(AnswerIsNo(format!("{} cannot be undone: {why}", place.shown())).into());
    }
    print(&summary_in(ReviewMode::AsBefore, server.screen, &status, server.namespace.is_none()))?;
    let phase = undone["status"]["phase"].as_str().unwrap_or("Planning");
    if !matches!(phase, "Completed" | "Aborted") {
        let then = "Moves under way settle, and what has moved by then goes back.";
        print(&format!("{} is {phase}, and is aborted first. {then}\n", place.shown()))?;
    } else if status.summary.to_move == 0 {
        print("Nothing would move, so nothing was created.\n")?;
        return as_asked_in(ReviewMode::AsBefore, &status);
    }
    let rollout: Rollout = serde_json::from_value(spec["rollout"].clone()).unwrap_or_default();
    print(&format!("\n{}\n", told(&rollout)))?;
    go(&server, &args.go, metadata, &spec).await
}

/// How the moves go, in a sentence: in which order, how many at once, and what failures do.
pub fn told(rollout: &Rollout) -> String {
    let mut bounds = vec![match rollout.strategy {
        Strategy::Direct => "all replicas of a workload at once".to_owned(),
        Strategy::SurgeFirst => "new replicas before old ones go".to_owned(),
    }];
    bounds.push(match rollout.max_concurrent {
        Some(most) => format!("at most {most} of the workloads at a time"),
        None => "all workloads at a time".to_owned(),
    });
    bounds.extend(rollout.max_moving_replicas.map(|most| format!("at most {most} replicas on their way")));
    bounds.extend(rollout.max_incoming_per_cluster.map(|most| format!("at most {most} arriving at one cluster")));
    if rollout.strategy == Strategy::SurgeFirst {
        bounds.extend(rollout.min_available.map(|least| format!("at least {least} of the replicas ready")));
    }
    let end = match rollout.abort_on {
        Some(on) => format!("no further move begins when {} of them have failed", on.failed),
        None => "moves that fail do not end it".to_owned(),
    };
    format!("They move with {}; {end}.", bounds.join(", "))
}

/// Why there is no plan, if there is none.
fn not_planned(planned: &Value) -> Option<&str> {
    let conditions = planned["status"]["conditions"].as_array()?;
    let refused = conditions.iter().find(|it| it["type"] == "Planned" && it["status"] == "False")?;
    refused["message"].as_str()
}

/// Finds a rebalance by what is typed: of the namespace first, then of all.
pub(super) async fn find(server: &Server, typed: &str) -> anyhow::Result<(RebalanceRef, Value)> {
    let (kind, name) = match typed.split_once('/') {
        None => (None, typed),
        Some(("rebalance" | "rebalances" | "reb", name)) => (Some("rebalance"), name),
        Some(("clusterrebalance" | "clusterrebalances" | "creb", name)) => (Some("clusterrebalance"), name),
        Some((kind, _)) => {
            let fault = format!("{kind} is no rebalance: write NAME, rebalance/NAME or clusterrebalance/NAME");
            return Err(UsageError(fault).into());
        }
    };
    if name.is_empty() {
        return Err(UsageError(format!("{typed:?} names no rebalance")).into());
    }
    if kind == Some("clusterrebalance") {
        server.refuse_namespace("a ClusterRebalance is in no namespace: leave -n out")?;
    }
    let mut found = Vec::new();
    let mut known = Vec::new();
    let mut refused = None;
    for place in places(server, kind, name) {
        match server.find::<Value>(&place.path()).await {
            Ok(Some(object)) => found.push((place, object)),
            Ok(None) => known.extend(names(server, &place.collection).await),
            // Without a right to one kind the other may still have it.
            Err(error) if error.downcast_ref::<Refused>().is_some_and(|it| it.is(403)) => refused = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (found.pop(), found.pop(), refused) {
        (Some(one), None, _) => Ok(one),
        (Some(_), Some(_), _) => {
            let fault = format!("there are rebalance/{name} and clusterrebalance/{name}: say which");
            Err(UsageError(fault).into())
        }
        (_, _, Some(refused)) => Err(refused),
        (None, _, None) => {
            let near = closest_name_with_same_digits(name, known.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let place = server.named_namespace().map_or_else(String::new, |it| format!(" in namespace {it}"));
            Err(UsageError(format!("no rebalance {name}{place}{hint}")).into())
        }
    }
}

fn places(server: &Server, kind: Option<&str>, name: &str) -> Vec<RebalanceRef> {
    let mut places = Vec::new();
    if let Some(namespace) = server.namespace.as_deref().filter(|_| kind != Some("clusterrebalance")) {
        let collection = format!("{API}/namespaces/{}/rebalances", escaped(namespace));
        places.push(RebalanceRef { collection, name: name.to_owned(), kind: "rebalance" });
    }
    // A namespace on the command line is where the rebalance is.
    if kind != Some("rebalance") && server.named_namespace().is_none() {
        let collection = format!("{API}/clusterrebalances");
        places.push(RebalanceRef { collection, name: name.to_owned(), kind: "clusterrebalance" });
    }
    places
}

/// The names for a hint. Without the right to list there are none.
async fn names(server: &Server, collection: &str) -> Vec<String> {
    let listed = server.list(collection, &[]).await.map(|(items, _)| items).unwrap_or_default();
    listed.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}
