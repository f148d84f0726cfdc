//! `ballast history`: each change of a workload's clusters, with its cause.
//!
//! The changes come from the log, by a watch that begins as far back as the log remembers. Their
//! causes come from the events where those are still kept, and else from the versions themselves.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cause;
use super::events::{self, MoveEvent, bare_cause};
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
use ballast_api::karmada::work::v1alpha2::{AnyBinding, LeftClusters, last_change};
use ballast_base::clock::{Clock, SystemClock};
use ballast_k8s::Time;
use ballast_k8s::human_duration::human_duration;
use ballast_rebalance::record::listed;
use ballast_scheduler::move_annotation::MoveAnnotation;

#[derive(clap::Args, Debug)]
pub struct HistoryArgs {
    /// The workload as kubectl names it: `deployment/web`, or `deployment web`
    #[arg(value_name = "TYPE/NAME", required = true)]
    workload: Vec<String>,

    /// Only changes until then: `10m` ago, `14:02` or `yesterday 14:02` in UTC, a time such
    /// as 2026-11-22T15:00:00Z, or a revision
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,

    /// Each step of a move that surges, instead of one line for each move
    #[arg(long)]
    all: bool,

    /// Format of the answer
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
    because: String,
    /// How many steps of one move this is.
    #[serde(skip_serializing_if = "is_one")]
    steps: usize,
    /// The move that the binding is in after the change.
    #[serde(skip)]
    in_move: Option<(String, String)>,
}

/// The move that a binding is in: the rebalance, and the name of the Move.
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
    let namespace = found.binding.metadata.namespace.as_deref().unwrap_or("default");
    let mut told = events::moves(&server, Some(namespace)).await?;
    let told = told.remove(found.binding.metadata.uid.as_deref().unwrap_or_default()).unwrap_or_default();
    let mut changes = changes(&versions, told, args.all);
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
    /// When it was written, as its managers say.
    written: Option<Time>,
}

impl Version {
    fn read(is_created: bool, object: &Value) -> serde_json::Result<Version> {
        let managers = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
        let written = managers.iter().filter_map(|entry| entry["time"].as_str()?.parse().ok()).max();
        Ok(Version { is_created, binding: AnyBinding::deserialize(object)?, written })
    }
}

/// The versions of the binding, as far as the log remembers.
async fn versions(server: &Server, found: &WorkloadBinding) -> anyhow::Result<Vec<Version>> {
    let newest = found.binding.metadata.resource_version.clone().unwrap_or_default();
    let number = |revision: &str| revision.parse::<u64>().unwrap_or_default();
    let mut from = "1".to_owned();
    // The second try begins where the server says that its memory does.
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
                // What comes next is another binding of the same name.
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

/// `too old resource version: 1 (123)` names the oldest that can be had.
fn oldest(message: &str) -> Option<String> {
    let (_, rest) = message.rsplit_once('(')?;
    rest.strip_suffix(')').filter(|it| it.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned)
}

/// `is_each`: each step of a move that surges is a change of its own.
fn changes(versions: &[Version], mut told: Vec<MoveEvent>, is_each: bool) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut before: Option<&AnyBinding> = None;
    for Version { is_created, binding: after, written } in versions {
        let from = before.map(targets).unwrap_or_default();
        let to = targets(after);
        let is_first = before.is_none();
        let previous = before.replace(after);
        if from == to {
            // Beside a Karmada the targets are written first, and their time comes with the status.
            if let Some(last) = changes.last_mut().filter(|last: &&mut Change| last.time.is_none()) {
                last.time = time(previous, after);
            }
            continue;
        }
        // A pass tells the shift, and a rebalance the way from where to where.
        let words = [cause::shift(&from, &to), format!("{} -> {}", listed(&from), listed(&to))];
        // A first placement has no event, and must not take a later one with the same words.
        let was_there = |before: &AnyBinding| {
            let evicts = !before.spec.graceful_eviction_tasks.is_empty();
            !from.is_empty() || evicts || LeftClusters::of(&before.metadata.annotations).is_some()
        };
        let has_event = previous.is_none_or(was_there);
        let event = if has_event { take(&mut told, &words) } else { None };
        let because = match &event {
            _ if is_first && !is_created => "the log remembers nothing before".to_owned(),
            // The version itself says it, as long as the log has the version (NG4).
            _ if let Some(stored) = stored_cause(after, &words) => stored,
            Some(event) => event.0.clone(),
            None => cause::between(previous, after),
        };
        let revision = after.metadata.resource_version.clone().unwrap_or_default();
        let time = event.and_then(|it| it.1).or_else(|| time(previous, after)).or(*written);
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

/// The cause that the scheduler stored with the change, if these words are about this change.
fn stored_cause(after: &AnyBinding, words: &[String]) -> Option<String> {
    let message = last_change(&after.metadata.annotations)?.to_owned();
    words.iter().find(|words| !words.is_empty() && message.contains(*words))?;
    MoveEvent { message, first: None, last: None }.cause().map(str::to_owned)
}

/// The cause and the time of the event with these words. The server counts events with the same
/// words, so one may stand for several changes: the first has its first time, and later ones its
/// last.
fn take(told: &mut [MoveEvent], words: &[String]) -> Option<(String, Option<Time>)> {
    let is_it = |told: &MoveEvent| words.iter().any(|words| told.message.contains(words)) && told.cause().is_some();
    let event = told.iter_mut().find(|told| is_it(told))?;
    let because = event.cause()?.to_owned();
    let time = event.first;
    event.first = event.last;
    Some((because, time))
}

/// When the change was made, as far as the versions say it.
fn time(before: Option<&AnyBinding>, after: &AnyBinding) -> Option<Time> {
    let scheduled = after.status.last_scheduled_time;
    let is_new = scheduled != before.and_then(|it| it.status.last_scheduled_time);
    let evicted = |binding: &AnyBinding| {
        binding.spec.graceful_eviction_tasks.iter().filter_map(|task| task.creation_timestamp).max()
    };
    let created = after.metadata.creation_timestamp.filter(|_| before.is_none());
    let left = |binding: &AnyBinding| LeftClusters::of(&binding.metadata.annotations).map(|left| left.at);
    // What the version before said, too, is of another change.
    let of_this =
        |time: &dyn Fn(&AnyBinding) -> Option<Time>| time(after).filter(|it| before.and_then(time) != Some(*it));
    scheduled.filter(|_| is_new).or(created).or_else(|| of_this(&left)).or_else(|| of_this(&evicted))
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
    use ballast_api::karmada::work::v1alpha2::MOVE;
    use serde_json::json;

    fn version(revision: &str, clusters: Value) -> AnyBinding {
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        AnyBinding::deserialize(&json!({"metadata": {"resourceVersion": revision},
            "spec": {"resource": resource, "replicas": 4, "clusters": clusters}, "status": {}}))
        .unwrap()
    }

    fn found(versions: impl IntoIterator<Item = (bool, AnyBinding)>, told: Vec<MoveEvent>) -> Vec<Change> {
        let version = |(is_created, binding)| Version { is_created, binding, written: None };
        changes(&versions.into_iter().map(version).collect::<Vec<_>>(), told, false)
    }

    #[test]
    fn versions_with_the_same_targets_are_no_change_and_an_event_names_the_cause() {
        let (away, home) = (json!([{"name": "m2", "replicas": 4}]), json!([{"name": "m1", "replicas": 4}]));
        let versions = [
            (true, version("3", json!([]))),
            (false, version("4", away.clone())),
            (false, version("5", away)),
            (false, version("6", home)),
        ];
        let message = "4 replicas moved: m1 0 to 4, m2 4 to 0, because of ClusterRebalance home.".to_owned();
        let time = Some(Time::from_seconds(60));
        let found = found(versions, vec![MoveEvent { message, first: time, last: time }]);
        let told: Vec<(&str, &str)> = found.iter().map(|it| (&*it.revision, &*it.because)).collect();
        let placed = "because it was placed for the first time";
        assert_eq!(told, [("4", placed), ("6", "because of ClusterRebalance home")]);
        assert_eq!(found[1].time, time);
    }

    #[test]
    fn sre_05_the_cause_that_is_stored_with_a_change_is_told_without_events_and_of_that_change_alone() {
        let told = |mut version: AnyBinding, sentence: &str| {
            version.metadata.annotations.insert("ballast.dev/last-change".to_owned(), sentence.to_owned());
            version
        };
        let sentence = "2 replicas added: m2 2 to 4, because it was evicted from m1 (2 replicas, TaintUntolerated).";
        let versions = [
            (true, version("3", json!([{"name": "m2", "replicas": 2}]))),
            (false, told(version("4", json!([{"name": "m2", "replicas": 4}])), sentence)),
            // Another program takes a replica away, and leaves the annotation as it is.
            (false, told(version("5", json!([{"name": "m2", "replicas": 3}])), sentence)),
        ];
        let found = found(versions, Vec::new());
        assert_eq!(found[1].because, "because it was evicted from m1 (2 replicas, TaintUntolerated)");
        assert_eq!(found[2].because, "the cause is not remembered");
    }

    #[test]
    fn t3_a_first_placement_does_not_take_the_cause_of_a_later_change() {
        let versions = [
            (true, version("3", json!([]))),
            (false, version("4", json!([{"name": "m1", "replicas": 2}]))),
            (false, version("5", json!([{"name": "m2", "replicas": 2}]))),
            (false, version("6", json!([{"name": "m1", "replicas": 2}]))),
        ];
        let message = "2 replicas moved: m1 0 to 2, m2 2 to 0, because of ClusterRebalance home.".to_owned();
        let time = Some(Time::from_seconds(60));
        let found = found(versions, vec![MoveEvent { message, first: time, last: time }]);
        let told: Vec<&str> = found.iter().map(|it| &*it.because).collect();
        assert_eq!(told[0], "because it was placed for the first time");
        assert_eq!(told[2], "because of ClusterRebalance home");
    }

    #[test]
    fn a_time_that_is_written_after_the_targets_is_theirs() {
        let (away, home) = (json!([{"name": "m2", "replicas": 4}]), json!([{"name": "m1", "replicas": 4}]));
        let scheduled = |mut version: AnyBinding, seconds| {
            version.status.last_scheduled_time = Some(Time::from_seconds(seconds));
            version
        };
        let versions = [
            (false, scheduled(version("3", away.clone()), 60)),
            (false, scheduled(version("4", home.clone()), 60)),
            (false, scheduled(version("5", home.clone()), 90)),
            (false, scheduled(version("6", home), 120)),
        ];
        let found = found(versions, Vec::new());
        let told: Vec<(&str, Option<Time>)> = found.iter().map(|it| (&*it.revision, it.time)).collect();
        assert_eq!(told, [("3", Some(Time::from_seconds(60))), ("4", Some(Time::from_seconds(90)))]);
    }

    #[test]
    fn sre_10_a_change_that_no_pass_and_no_task_dates_has_the_time_of_its_write() {
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
            Version::read(false, &object("4", "b", json!([task("a"), task("c")]), 30)).unwrap(),
            Version::read(false, &object("5", "a", json!([task("c")]), 90)).unwrap(),
        ];
        let found = changes(&versions, Vec::new(), false);
        assert_eq!(found[1].because, "because its eviction from a was called off");
        assert_eq!(found[1].time, Some(Time::from_seconds(90)));
    }

    #[test]
    fn the_steps_of_a_move_that_surges_are_one_change_unless_each_is_asked_for() {
        let told =
            |from: &str, to: &str| format!("4 replicas moved: {from} -> {to}, because of ClusterRebalance home.");
        let step = |revision: &str, m1: i32, m2: i32, is_moving: bool, sentence: &str| {
            let share = |name: &str, replicas: i32| (replicas > 0).then(|| json!({"name": name, "replicas": replicas}));
            let clusters: Vec<Value> = [share("m1", m1), share("m2", m2)].into_iter().flatten().collect();
            let mut binding = version(revision, clusters.into());
            binding.metadata.annotations.insert("ballast.dev/last-change".to_owned(), sentence.to_owned());
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
            changes(&versions, Vec::new(), is_each).into_iter().map(|it| (it.revision, it.steps)).collect()
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
