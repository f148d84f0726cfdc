//! `ballast history`: each change of a workload's clusters, with its cause.
//!
//! The changes come from the log, by a watch that starts at the oldest available revision. Each
//! version contains the cause and the time of its own change. Nothing is inferred from events.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::events::{bare_cause, plain_cause};
use super::karmadas_events;
use super::names::{WorkloadBinding, find_one, shown, targets};
use super::review::places;
use super::server::{Refused, Server, escaped};
use super::why::Moment;
use super::{CommonArgs, Format, WideFormat};
use crate::cli::embedded::ServerKind;
use crate::cli::output::print;
use crate::cli::screen::{Screen, Tone, data};
use crate::cli::table::{Side, Table, cell};
use ballast_api::ballast::v1alpha1::Share;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, LAST_CHANGE, LastChange};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;
use ballast_scheduler::move_annotation::MoveAnnotation;

#[derive(clap::Args, Debug)]
pub struct HistoryArgs {
    /// The workload as kubectl names it: `deployment/web`, or `deployment web`
    #[arg(value_name = "TYPE/NAME", required = true)]
    workload: Vec<String>,

    /// Only changes until this time: `10m` or `2d` ago, `14:02` or `yesterday 14:02` in UTC, a time
    /// such as 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,

    /// Show each step of a surging move, instead of one line for each move
    #[arg(long)]
    all: bool,

    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output: WideFormat,

    #[command(flatten)]
    common: CommonArgs,
}

/// One change of the targets.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Change {
    revision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
    from: Vec<Share>,
    to: Vec<Share>,
    #[serde(rename = "cause", serialize_with = "plain_cause")]
    because: String,
    /// The number of steps of one move in this change.
    #[serde(skip_serializing_if = "is_one")]
    steps: usize,
    /// The move in progress after the change.
    #[serde(skip)]
    in_move: Option<(String, String)>,
}

/// Returns the move in progress of a binding: the rebalance, and the name of the Move.
fn in_move(binding: &AnyBinding) -> Option<(String, String)> {
    let mark = MoveAnnotation::of(&binding.metadata.annotations)?;
    Some((mark.by, mark.name))
}

fn is_one(steps: &usize) -> bool {
    *steps == 1
}

pub async fn run(args: HistoryArgs) -> anyhow::Result<()> {
    let (mut server, serves) = Server::open_named(&args.common).await?;
    let output = args.output.on(&mut server.screen);
    let found = find_one(&server, &args.workload).await?;
    if serves == ServerKind::Karmada {
        return karmadas_events::run(&server, &found, output).await;
    }
    let versions = versions(&server, &found).await?;
    let mut changes = changes(&versions, args.all);
    if let Some(at) = &args.at {
        let is_later = |change: &Change| at.is_before(change.time, &change.revision);
        let kept = changes.iter().position(is_later).unwrap_or(changes.len());
        changes.truncate(kept);
    }
    match output {
        Format::Table => print(&table(server.screen, &found, &changes, args.at.is_some())),
        format => print(&data(&changes, format == Format::Yaml)?),
    }
}

/// A version of the binding.
struct Version {
    is_created: bool,
    binding: AnyBinding,
    /// The newest time of its managed fields. A write that changes targets also sets it.
    written: Option<Time>,
}

impl Version {
    fn read(is_created: bool, object: &Value) -> serde_json::Result<Version> {
        let managers = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        let written = managers.iter().filter_map(|entry| entry["time"].as_str()?.parse().ok()).max();
        Ok(Version { is_created, binding: AnyBinding::deserialize(object)?, written })
    }
}

/// Returns the versions of the binding, as far back as the log reaches.
async fn versions(server: &Server, found: &WorkloadBinding) -> anyhow::Result<Vec<Version>> {
    let newest = found.binding.metadata.resource_version.clone().unwrap_or_default();
    let number = |revision: &str| revision.parse::<u64>().unwrap_or_default();
    let mut from = "1".to_owned();
    // The second attempt starts at the oldest revision that the server reported.
    for _ in 0..2 {
        if number(&newest) <= number(&from) {
            break;
        }
        let name = found.binding.metadata.name.as_deref().unwrap_or_default();
        let field = escaped(&format!("metadata.name={name}"));
        let path = format!("{}?fieldSelector={field}&resourceVersion={from}&timeoutSeconds=60", found.collection);
        let mut versions = Vec::new();
        let seen = |event: &Value| {
            let object = &event["object"];
            if event["type"] == "DELETED" {
                // The following versions belong to another binding of the same name.
                versions.clear();
                return Ok(ControlFlow::Continue(()));
            }
            versions.push(Version::read(event["type"] == "ADDED", object)?);
            let at = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            Ok(if number(at) >= number(&newest) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        match server.watch(&path, seen).await {
            Ok(_) => return Ok(versions),
            Err(error) => match error.downcast_ref::<Refused>() {
                Some(refused) if refused.is(410) => from = oldest(&refused.0.message).unwrap_or(newest.clone()),
                _ => return Err(error),
            },
        }
    }
    Ok(vec![Version { is_created: false, binding: found.binding.clone(), written: None }])
}

/// Parses the oldest available revision from `too old resource version: 1 (123)`.
fn oldest(message: &str) -> Option<String> {
    let (_, rest) = message.rsplit_once('(')?;
    rest.strip_suffix(')').filter(|it| it.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned)
}

/// The cause of a change if its writer has not recorded one.
pub const NOT_RECORDED: &str = "cause not recorded";

/// Returns the changes. With `is_each`, each step of a surging move is a separate change.
fn changes(versions: &[Version], is_each: bool) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut before: Option<&AnyBinding> = None;
    let mut newest = None;
    for Version { is_created, binding: after, written } in versions {
        let from = before.map(targets).unwrap_or_default();
        let to = targets(after);
        let previous = before.replace(after);
        if from == to {
            continue;
        }
        let recorded = recorded(previous, after);
        let is_begun = previous.is_none() && !is_created;
        let because = match recorded.and_then(|it| it.cause()) {
            Some(cause) => cause.to_owned(),
            None if is_begun => "the log remembers nothing before".to_owned(),
            None => evicted(previous, after).unwrap_or_else(|| NOT_RECORDED.to_owned()),
        };
        // The first version may have been written long after the change that led to its targets.
        let time = written.filter(|_| !is_begun).or_else(|| recorded?.time());
        // Times increase with revisions, even if a clock was set back.
        newest = newest.max(time);
        let time = time.and(newest);
        let revision = after.metadata.resource_version.clone().unwrap_or_default();
        let moving = previous.and_then(in_move);
        let is_next_step = |last: &&mut Change| moving.is_some() && last.in_move == moving && last.because == because;
        if let Some(last) = changes.last_mut().filter(|last| !is_each && is_next_step(last)) {
            (last.revision, last.to, last.in_move) = (revision, to, in_move(after));
            (last.time, last.steps) = (time.or(last.time), last.steps + 1);
            continue;
        }
        changes.push(Change { revision, time, from, to, because, steps: 1, in_move: in_move(after) });
    }
    changes
}

/// Returns the change that the version records as its own. A writer that records none leaves the
/// annotation of the previous version.
fn recorded<'v>(before: Option<&AnyBinding>, after: &'v AnyBinding) -> Option<LastChange<'v>> {
    let text = |binding: &'v AnyBinding| binding.metadata.annotations.get(LAST_CHANGE);
    let change = LastChange::of(&after.metadata.annotations)?;
    let is_own = match before {
        Some(before) => before.metadata.annotations.get(LAST_CHANGE) != text(after),
        None => change.led_to(&after.spec.clusters),
    };
    is_own.then_some(change)
}

/// Returns the cause that the eviction tasks of the version record. Karmada's controllers write a
/// task together with the change.
fn evicted(before: Option<&AnyBinding>, after: &AnyBinding) -> Option<String> {
    let is_known = |cluster: &str| {
        before.is_some_and(|it| it.spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == cluster))
    };
    let task = after.spec.graceful_eviction_tasks.iter().find(|task| !is_known(&task.from_cluster))?;
    Some(format!("because it was evicted from {} ({})", task.from_cluster, task.reason))
}

fn table(screen: Screen, found: &WorkloadBinding, changes: &[Change], is_past: bool) -> String {
    if changes.is_empty() {
        let name = shown(&found.workload(), false);
        if is_past {
            return format!("{name} was nowhere at that time, as far as the log remembers.\n");
        }
        return format!("{name} is nowhere, and was nowhere as far as the log remembers.\n");
    }
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("REVISION", Right),
        ("TIME", Left),
        ("AGO", Right),
        ("FROM", Left),
        ("TO", Left),
        ("CAUSE", Left),
    ]);
    let now = SystemClock.now();
    for change in changes {
        let ago = change.time.map_or_else(String::new, |time| human_duration(now.seconds() - time.seconds()));
        table.row(vec![
            cell(&change.revision).tone(Tone::Faint),
            cell(change.time.map_or_else(String::new, |time| time.to_string())),
            cell(ago),
            cell(places(&change.from)),
            cell(places(&change.to)).tone(Tone::Good),
            cell(match change.steps {
                1 => bare_cause(&change.because).to_owned(),
                steps => format!("{} ({steps} steps)", bare_cause(&change.because)),
            }),
        ]);
    }
    table.on(screen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::karmada::work::v1alpha2::{MOVE, shares};
    use serde_json::json;

    fn version(revision: &str, clusters: Value) -> AnyBinding {
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        AnyBinding::deserialize(&json!({"metadata": {"resourceVersion": revision},
            "spec": {"resource": resource, "replicas": 4, "clusters": clusters}, "status": {}}))
        .unwrap()
    }

    fn found(versions: impl IntoIterator<Item = (bool, AnyBinding)>) -> Vec<Change> {
        let version = |(is_created, binding)| Version { is_created, binding, written: None };
        changes(&versions.into_iter().map(version).collect::<Vec<_>>(), false)
    }

    /// Returns the version with this change recorded as the last one.
    fn recording(mut version: AnyBinding, seconds: i64, sentence: &str) -> AnyBinding {
        let (now, known) = (Time::from_seconds(seconds), &version.metadata.annotations);
        let text = LastChange::text(known, now, shares(&version.spec.clusters), sentence);
        version.metadata.annotations.insert(LAST_CHANGE.to_owned(), text);
        version
    }

    #[test]
    fn each_change_has_its_own_cause_and_never_that_of_another() {
        let (m1, m2) = (json!([{"name": "m1", "replicas": 4}]), json!([{"name": "m2", "replicas": 4}]));
        let home = "4 replicas moved: m1 0 to 4, m2 4 to 0, because of ClusterRebalance home.";
        let first = "4 replicas added: m2 0 to 4, because it was placed for the first time.";
        let placed = recording(version("4", m2.clone()), 60, first);
        let same = AnyBinding { metadata: placed.metadata.clone(), ..version("5", m2.clone()) };
        let returned = recording(version("6", m1.clone()), 90, home);
        // Another program moves it away and back, and leaves the annotation unchanged.
        let stale = |revision: &str, clusters: &Value| {
            let mut other = version(revision, clusters.clone());
            other.metadata.annotations = returned.metadata.annotations.clone();
            other
        };
        let (away, back) = (stale("7", &m2), stale("8", &m1));
        let found = found(
            [(true, version("3", json!([]))), (false, placed), (false, same), (false, returned.clone())]
                .into_iter()
                .chain([(false, away), (false, back)]),
        );
        let causes: Vec<(&str, &str)> = found.iter().map(|it| (&*it.revision, &*it.because)).collect();
        let placed = ("4", "because it was placed for the first time");
        let home = ("6", "because of ClusterRebalance home");
        assert_eq!(causes, [placed, home, ("7", NOT_RECORDED), ("8", NOT_RECORDED)]);
        assert_eq!(found[1].time, Some(Time::from_seconds(90)));
    }

    #[test]
    fn the_oldest_version_has_a_cause_if_it_records_its_targets() {
        let clusters = json!([{"name": "m1", "replicas": 4}]);
        let sentence = "4 replicas moved: m1 0 to 4, m2 4 to 0, because of ClusterRebalance home.";
        let known = recording(version("3", clusters.clone()), 60, sentence);
        let mut stale = version("3", json!([{"name": "m2", "replicas": 4}]));
        stale.metadata.annotations = known.metadata.annotations.clone();
        let because = |version: AnyBinding| found([(false, version)]).remove(0).because;
        assert_eq!(because(known), "because of ClusterRebalance home");
        assert_eq!(because(stale), "the log remembers nothing before");
        assert_eq!(because(version("3", clusters)), "the log remembers nothing before");
    }

    #[test]
    fn times_are_those_of_the_writes_and_rise_with_revisions() {
        let object = |revision: &str, cluster: &str, leaving: Value, seconds: i64| {
            json!({"metadata": {"resourceVersion": revision, "managedFields": [
                    {"manager": "kubectl", "time": Time::from_seconds(7)},
                    {"manager": "ballast-graceful-eviction", "time": Time::from_seconds(seconds)},
                    {"manager": "agent"}]},
                "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "replicas": 2,
                    "clusters": [{"name": cluster, "replicas": 2}], "gracefulEvictionTasks": leaving},
                "status": {"lastScheduledTime": Time::from_seconds(30)}})
        };
        let task = |cluster: &str| {
            json!({"fromCluster": cluster, "reason": "TaintUntolerated", "producer": "TaintManager",
                "creationTimestamp": Time::from_seconds(20)})
        };
        let versions = [
            Version::read(false, &object("4", "b", json!([]), 30)).unwrap(),
            Version::read(false, &object("5", "a", json!([task("b")]), 90)).unwrap(),
            Version::read(false, &object("6", "b", json!([task("b")]), 80)).unwrap(),
        ];
        let found = changes(&versions, false);
        let told: Vec<(&str, Option<i64>)> =
            found.iter().map(|it| (&*it.because, it.time.map(|time| time.seconds()))).collect();
        let evicted = "because it was evicted from b (TaintUntolerated)";
        let begun = "the log remembers nothing before";
        assert_eq!(told, [(begun, None), (evicted, Some(90)), (NOT_RECORDED, Some(90))]);
    }

    #[test]
    fn the_steps_of_a_move_that_surges_are_one_change_unless_each_is_asked_for() {
        let told =
            |from: &str, to: &str| format!("4 replicas moved: {from} -> {to}, because of ClusterRebalance home.");
        let step = |revision: &str, m1: i32, m2: i32, is_moving: bool, sentence: &str| {
            let share = |name: &str, replicas: i32| (replicas > 0).then(|| json!({"name": name, "replicas": replicas}));
            let clusters: Vec<Value> = [share("m1", m1), share("m2", m2)].into_iter().flatten().collect();
            let mut binding = version(revision, clusters.into());
            if !sentence.is_empty() {
                binding = recording(binding, 60, sentence);
            }
            if is_moving {
                let mark =
                    json!({"by": "clusterrebalances/home", "move": "home-web", "replicas": 4, "at": [["m1", m1]]});
                binding.metadata.annotations.insert(MOVE.to_owned(), mark.to_string());
            }
            Version { is_created: false, binding, written: None }
        };
        let versions = [
            step("3", 0, 4, false, ""),
            step("4", 1, 4, true, &told("m2:4", "m1:1,m2:4")),
            step("5", 2, 3, true, &told("m1:1,m2:4", "m1:2,m2:3")),
            step("6", 4, 0, false, &told("m1:2,m2:3", "m1:4")),
            step("7", 3, 1, false, ""),
        ];
        let told = |is_each: bool| -> Vec<(String, usize)> {
            changes(&versions, is_each).into_iter().map(|it| (it.revision, it.steps)).collect()
        };
        let is = |told: &[(&str, usize)]| {
            told.iter().map(|(revision, steps)| ((*revision).to_owned(), *steps)).collect::<Vec<_>>()
        };
        assert_eq!(told(false), is(&[("3", 1), ("6", 3), ("7", 1)]));
        assert_eq!(told(true), is(&[("3", 1), ("4", 1), ("5", 1), ("6", 1), ("7", 1)]));
    }

    #[test]
    fn the_server_says_how_far_back_its_log_goes() {
        assert_eq!(oldest("too old resource version: 1 (123)").as_deref(), Some("123"));
        assert_eq!(oldest("gone (or not)"), None);
    }
}
