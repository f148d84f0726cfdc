//! Writes objects of a log back to an API server, spec before status.
//!
//! An API server keeps its own uid, creation time, generation and managers, so these are not
//! written. If a status has observed the current generation, it is written with the generation that
//! the object has there. Otherwise a controller there would consider the object changed.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::comparison::differing_members;
use super::kinds::Versions;
use super::report::{KindCounts, Named, Report};
use super::source::Api;
use super::{Tree, metadata, shown_name};
use crate::cli::operator::server::{Refused, escaped};
use ballast_api::ballast::v1alpha1::{GROUP, RESERVED_PREFIX};
use ballast_api::karmada::policy::v1alpha1::{ClusterPropagationPolicy, PropagationPolicy};
use ballast_api::karmada::work::v1alpha2::{ARRIVALS, ClusterResourceBinding, LAST_CHANGE, ResourceBinding};
use ballast_api::tree::object_or_new;
use ballast_k8s::GroupResource;
use ballast_node::UsageError;
use ballast_resource::ResourceKind;

/// Maximum number of objects that are written concurrently.
const IN_FLIGHT: usize = 16;
/// Maximum number of attempts of a request that the server is too busy for.
const TRIES: u32 = 8;
/// Pause before the next attempt, if the server specifies none; it doubles each time.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Members of `metadata` that are written.
const METADATA: [&str; 6] = ["name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"];

/// The permitted changes of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportMode {
    /// Whether anything is written.
    pub writes: bool,
    /// Whether objects that only the API server has are deleted.
    pub prunes: bool,
}

/// The result for one object.
enum Outcome {
    New,
    Changed(String),
    Same,
    Refused(String),
}

/// Writes all objects, kind by kind.
pub async fn export(
    api: &Api,
    kinds: &[Versions],
    mut objects: HashMap<GroupResource, Vec<Tree>>,
    how: ExportMode,
) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for kind in kinds {
        let here = objects.remove(&kind.resource()).unwrap_or_default();
        let (resource, count) = (kind.resource(), here.len());
        match api.version(kind) {
            Some(row) if row.written_by_clients => export_kind(api, row, here, how, &mut report).await?,
            _ if count == 0 => {}
            Some(_) => {
                let why = "only the server itself writes them";
                report.remarks.push(format!("Left behind, because {why}: {count} {resource}"));
            }
            None => report.not_served.push(format!("{resource} (objects left behind: {count})")),
        }
    }
    let only_there = report.sum(|tally| tally.only_there);
    if only_there > 0 && !how.prunes {
        report.remarks.push(format!("Only there, and left alone without --prune: {only_there}"));
    }
    Ok(report)
}

async fn export_kind(
    api: &Api,
    row: &ResourceKind,
    here: Vec<Tree>,
    how: ExportMode,
    report: &mut Report,
) -> anyhow::Result<()> {
    let kind = row.resource.to_string();
    let mut there: BTreeMap<String, Tree> =
        api.list(row).await?.into_iter().map(|object| (shown_name(&object), object)).collect();
    let mut tally = KindCounts { kind: kind.clone(), read: here.len(), ..KindCounts::default() };
    let (going, staying): (Vec<Tree>, Vec<Tree>) =
        here.into_iter().partition(|object| !metadata(object, "deletionTimestamp").is_empty());
    // An object that is being deleted here is deleted there, or not changed.
    going.iter().for_each(|object| drop(there.remove(&shown_name(object))));
    if !going.is_empty() {
        report.remarks.push(format!("Being deleted here, and left behind: {} {kind}", going.len()));
    }
    let with_known = |object: Tree| {
        let known = there.remove(&shown_name(&object));
        (object, known)
    };
    let pairs: Vec<(Tree, Option<Tree>)> = staying.into_iter().map(with_known).collect();
    let written = stream::iter(pairs).map(|(object, known)| async move {
        let name = shown_name(&object);
        let outcome = match how.writes {
            true => write(api, row, object, known).await?,
            false => rehearse(row, &object, known.as_ref()),
        };
        Ok::<_, anyhow::Error>((name, outcome))
    });
    let outcomes: Vec<(String, Outcome)> = written.buffered(IN_FLIGHT).try_collect().await?;
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::New => tally.new += 1,
            Outcome::Same => tally.same += 1,
            Outcome::Changed(what) => {
                tally.changed += 1;
                report.differing.push(Named { kind: kind.clone(), name, what });
            }
            Outcome::Refused(what) => {
                tally.refused += 1;
                report.refused.push(Named { kind: kind.clone(), name, what });
            }
        }
    }
    tally.only_there = there.len();
    for (name, object) in there {
        if how.writes && how.prunes {
            let path = path(row, &object);
            let deleted = patiently(|| api.server.delete(&path)).await;
            if let Err(why) = refusal(deleted)? {
                report.refused.push(Named { kind: kind.clone(), name: name.clone(), what: why });
                tally.refused += 1;
            }
        }
        report.only_there.push(Named { kind: kind.clone(), name, what: String::new() });
    }
    report.kinds.push(tally);
    Ok(())
}

/// Returns the outcome that `write` would have if the server accepts the object.
fn rehearse(row: &ResourceKind, object: &Tree, known: Option<&Tree>) -> Outcome {
    let Some(known) = known else { return Outcome::New };
    let wanted = status_there(object, known);
    let mut differing = differing_members(&main_part(row, known), &main_part_there(row, object, known));
    if row.status_subresource {
        differing.extend(status_differs(known, wanted.as_ref()));
    }
    match differing.is_empty() {
        true => Outcome::Same,
        false => Outcome::Changed(differing.join(", ")),
    }
}

async fn write(api: &Api, row: &ResourceKind, object: Tree, known: Option<Tree>) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Same;
    let mut there;
    match known {
        None => {
            let path = collection(row, &object);
            let wanted = main_part(row, &object);
            match refusal(patiently(|| api.server.create(&path, &wanted)).await)? {
                Ok(made) => (outcome, there) = (Outcome::New, made),
                Err(why) => return Ok(Outcome::Refused(why)),
            }
        }
        Some(known) => {
            let wanted = main_part_there(row, &object, &known);
            let differing = differing_members(&main_part(row, &known), &wanted);
            there = known;
            if !differing.is_empty() {
                let replacement = with_revision(wanted, &there);
                let path = path(row, &object);
                match refusal(patiently(|| api.server.replace(&path, &replacement)).await)? {
                    Ok(made) => {
                        // A server may set fields that the object lacks; then there was nothing to
                        // do.
                        if revision(&made) != revision(&there) {
                            outcome = Outcome::Changed(differing.join(", "));
                        }
                        there = made;
                    }
                    Err(why) => return Ok(Outcome::Refused(why)),
                }
            }
        }
    }
    if !row.status_subresource {
        return Ok(outcome);
    }
    let status = status_there(&object, &there);
    let Some(what) = status_differs(&there, status.as_ref()) else { return Ok(outcome) };
    let before = revision(&there).to_owned();
    match status {
        Some(status) => there.insert("status".to_owned(), status),
        None => there.remove("status"),
    };
    let path = format!("{}/status", path(row, &object));
    Ok(match refusal(patiently(|| api.server.replace(&path, &there)).await)? {
        Err(why) => Outcome::Refused(format!("its status: {why}")),
        Ok(made) if revision(&made) == before => outcome,
        Ok(_) => match outcome {
            Outcome::Same => Outcome::Changed(what),
            Outcome::Changed(more) => Outcome::Changed(format!("{more}, {what}")),
            other => other,
        },
    })
}

/// Returns the part of an object that a client writes: all except the status and server-side
/// metadata.
fn main_part(row: &ResourceKind, object: &Tree) -> Tree {
    let is_kept = |name: &str| name != "metadata" && !(name == "status" && row.status_subresource);
    let mut part: Tree =
        object.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    let own = object.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let own: Tree = own
        .filter(|(name, _)| METADATA.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    part.insert("metadata".to_owned(), Value::Object(own));
    part.insert("apiVersion".to_owned(), row.api_version().into());
    part.insert("kind".to_owned(), row.kind.into());
    part
}

/// Returns the part that a client writes over an existing object. Fields that the server does not
/// keep as written have their existing values, or the two would never be equal.
fn main_part_there(row: &ResourceKind, object: &Tree, there: &Tree) -> Tree {
    let mut part = main_part(row, object);
    keep_permanent_ids(&mut part, there);
    keep_notes(row, &mut part, there);
    leave_out_empty_lists(&mut part, there);
    part
}

/// Keeps the permanent id that the API server assigned when it created the object.
fn keep_permanent_ids(part: &mut Tree, there: &Tree) {
    let labels_there = there.get("metadata").and_then(|metadata| metadata.get("labels"));
    let labels = part.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels"));
    let (Some(labels), Some(labels_there)) = (labels.and_then(Value::as_object_mut), labels_there) else { return };
    for name in [
        PropagationPolicy::PERMANENT_ID,
        ClusterPropagationPolicy::PERMANENT_ID,
        ResourceBinding::PERMANENT_ID,
        ClusterResourceBinding::PERMANENT_ID,
    ] {
        if let (Some(id), Some(id_there)) = (labels.get_mut(name), labels_there.get(name)) {
            *id = id_there.clone();
        }
    }
}

/// Keeps the annotations that a Ballast server sets itself: users of rebalances, the times at which
/// a client assigned replicas, and the cause of the assignment.
fn keep_notes(row: &ResourceKind, part: &mut Tree, there: &Tree) {
    let is_note = |name: &str| {
        [ARRIVALS, LAST_CHANGE].contains(&name) || (row.group == GROUP && name.starts_with(RESERVED_PREFIX))
    };
    let of_there = there.get("metadata").and_then(|metadata| metadata.get("annotations")).and_then(Value::as_object);
    let notes: Tree = of_there
        .into_iter()
        .flatten()
        .filter(|(name, _)| is_note(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let own =
        part.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations")).and_then(Value::as_object_mut);
    if let Some(own) = own.filter(|_| row.group == GROUP) {
        own.retain(|name, _| !is_note(name));
    }
    if !notes.is_empty()
        && let Some(annotations) = object_or_new(part, &["metadata", "annotations"])
    {
        annotations.extend(notes);
    }
}

/// Removes empty lists, because an aggregated API server omits them in responses (Go's
/// `omitempty`).
fn leave_out_empty_lists(part: &mut Tree, there: &Tree) {
    part.retain(|name, value| there.contains_key(name) || !matches!(value, Value::Array(list) if list.is_empty()));
    for (name, value) in part {
        match (value, there.get(name)) {
            (Value::Object(part), Some(Value::Object(there))) => leave_out_empty_lists(part, there),
            (Value::Array(part), Some(Value::Array(there))) => {
                for pair in part.iter_mut().zip(there) {
                    if let (Value::Object(part), Value::Object(there)) = pair {
                        leave_out_empty_lists(part, there);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the replacement of an object, conditional on its revision.
fn with_revision(mut part: Tree, there: &Tree) -> Tree {
    let identity = there.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let identity = identity.filter(|(name, _)| matches!(name.as_str(), "resourceVersion" | "uid"));
    if let Some(metadata) = part.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.extend(identity.map(|(name, value)| (name.clone(), value.clone())));
    }
    part
}

fn revision(object: &Tree) -> &str {
    metadata(object, "resourceVersion")
}

/// Returns the status to write; `None` if the object has none.
fn status_there(object: &Tree, there: &Tree) -> Option<Value> {
    let generation = |object: &Tree| object.get("metadata")?.get("generation").cloned();
    let mut status = object.get("status").filter(|status| **status != json!({}))?.clone();
    if let (Some(here), Some(there)) = (generation(object), generation(there))
        && here != there
    {
        follow_generation(&mut status, &here, &there);
    }
    Some(status)
}

/// Replaces observations of one generation with another generation.
fn follow_generation(status: &mut Value, from: &Value, to: &Value) {
    let follow = |object: &mut Tree| {
        for (name, value) in object.iter_mut() {
            if name.ends_with("bservedGeneration") && value == from {
                *value = to.clone();
            }
        }
    };
    let Value::Object(status) = status else { return };
    follow(status);
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    conditions.filter_map(Value::as_object_mut).for_each(follow);
}

/// Describes how the status differs from the wanted one.
fn status_differs(there: &Tree, wanted: Option<&Value>) -> Option<String> {
    let status = there.get("status").filter(|status| **status != json!({}));
    if status == wanted {
        return None;
    }
    match (status.and_then(Value::as_object), wanted.and_then(Value::as_object)) {
        (Some(there), Some(wanted)) => {
            let members = differing_members(there, wanted);
            Some(members.iter().map(|member| format!("status.{member}")).collect::<Vec<_>>().join(", "))
        }
        _ => Some("status".to_owned()),
    }
}

fn collection(row: &ResourceKind, object: &Tree) -> String {
    match row.is_namespaced() {
        true => format!("/{}/namespaces/{}/{}", row.root(), escaped(metadata(object, "namespace")), row.plural),
        false => format!("/{}/{}", row.root(), row.plural),
    }
}

fn path(row: &ResourceKind, object: &Tree) -> String {
    format!("{}/{}", collection(row, object), escaped(metadata(object, "name")))
}

/// Retries a request while the server is too busy.
async fn patiently<F: Future<Output = anyhow::Result<Tree>>>(send: impl Fn() -> F) -> anyhow::Result<Tree> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        let error = match send().await {
            Ok(object) => return Ok(object),
            Err(error) => error,
        };
        let busy = error.downcast_ref::<Refused>().filter(|it| [429, 500, 503, 504].iter().any(|code| it.is(*code)));
        let Some(refused) = busy else { return Err(error) };
        let named = refused.0.retry_after_seconds().map(|seconds| Duration::from_secs(seconds.into()));
        tokio::time::sleep(named.unwrap_or(pause).min(PAUSE_MAX)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    send().await
}

/// Converts a rejection of one object to a message. All other errors end the export.
fn refusal(answer: anyhow::Result<Tree>) -> anyhow::Result<Result<Tree, String>> {
    match answer {
        Ok(object) => Ok(Ok(object)),
        Err(error) if error.is::<Refused>() || error.is::<UsageError>() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(value: Value) -> Tree {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_status_that_has_seen_the_newest_generation_has_seen_it_there_too() {
        let here = tree(json!({"metadata": {"generation": 7}, "status": {"schedulerObservedGeneration": 7,
            "observedGeneration": 6, "conditions": [{"type": "Scheduled", "observedGeneration": 7}]}}));
        let there = tree(json!({"metadata": {"generation": 2}}));
        let expected = json!({"schedulerObservedGeneration": 2, "observedGeneration": 6,
            "conditions": [{"type": "Scheduled", "observedGeneration": 2}]});
        assert_eq!(status_there(&here, &there), Some(expected));
        let same = tree(json!({"metadata": {"generation": 7}}));
        assert_eq!(status_there(&here, &same).as_ref(), here.get("status"));
        assert_eq!(status_there(&tree(json!({"status": {}})), &there), None);
    }

    #[test]
    fn what_the_server_does_not_keep_as_written_is_no_difference() {
        let kinds = ballast_api::kinds();
        let row = kinds.find("cluster.karmada.io", "v1alpha1", "clusters").unwrap();
        let cluster = |spec| tree(json!({"metadata": {"name": "m1"}, "spec": spec}));
        let here = cluster(json!({"taints": [], "syncMode": "Push", "resourceModels": [{"grade": 1, "ranges": []}]}));
        let there = cluster(json!({"syncMode": "Push", "resourceModels": [{"grade": 1}]}));
        assert!(matches!(rehearse(row, &here, Some(&there)), Outcome::Same));
        let tainted = cluster(json!({"syncMode": "Push", "taints": [{"key": "a", "effect": "NoSchedule"}]}));
        assert!(matches!(rehearse(row, &here, Some(&tainted)), Outcome::Changed(_)), "a list that is emptied differs");

        let row = kinds.find("policy.karmada.io", "v1alpha1", "propagationpolicies").unwrap();
        let policy = |labels| tree(json!({"metadata": {"name": "p", "namespace": "d", "labels": labels}, "spec": {}}));
        let here = policy(json!({"propagationpolicy.karmada.io/permanent-id": "ours", "a": "b"}));
        let there = policy(json!({"propagationpolicy.karmada.io/permanent-id": "theirs", "a": "b"}));
        assert!(matches!(rehearse(row, &here, Some(&there)), Outcome::Same));
        let other = policy(json!({"propagationpolicy.karmada.io/permanent-id": "theirs", "a": "c"}));
        assert!(matches!(rehearse(row, &here, Some(&other)), Outcome::Changed(_)));
        assert_eq!(main_part_there(row, &here, &other)["metadata"]["labels"]["a"], "b");
    }

    #[test]
    fn the_main_part_is_what_a_client_writes() {
        let kinds = ballast_api::kinds();
        let row = kinds.find("cluster.karmada.io", "v1alpha1", "clusters").unwrap();
        let object = tree(json!({"apiVersion": "x", "kind": "Cluster", "metadata": {"name": "m1", "uid": "u",
            "generation": 3, "labels": {"a": "b"}, "managedFields": []}, "spec": {"a": 1}, "status": {"b": 2}}));
        let expected = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "m1", "labels": {"a": "b"}}, "spec": {"a": 1}});
        assert_eq!(Value::Object(main_part(row, &object)), expected);
    }
}
