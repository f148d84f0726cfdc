//! A part of a binding of either kind that borrows from its text, for loops that read very many
//! bindings and act on few.
//!
//! It is parsed on each use: keeping typed bindings of all objects would take more memory than the
//! objects themselves. Large parts stay text until a caller reads them.
//!
//! Bindings are read in one of four ways:
//! - A flag (`binding_flags`) shows that there is nothing to read. It is computed once per version.
//! - `PartialBinding` contains the fields for loops that find, count or filter bindings.
//! - `AnyBinding` is the whole binding, for the few that are decided, moved or evicted.
//! - `differ_in_trigger` compares two texts without parsing them. A rebalance writes each binding
//!   twice, and otherwise every loop would read both versions to find that nothing else changed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{HOME, Home, ObjectReference, PENDING_PASS, ResourceHealth, Trigger};
use crate::core::{self, Toleration};
use crate::requester::ASKED_BY;
use ballast_k8s::{Key, Revision, Time, Walk};

/// The scheduler of bindings without a `schedulerName`.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The parts of a binding that many workers read. Borrows from the text of the object.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct PartialBinding<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    pub spec: PartialSpec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    annotations: Option<&'a str>,
    creation_timestamp: Option<Time>,
}

/// The parts of a binding's spec that many workers read.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialSpec<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    resource: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "text")]
    placement: Option<&'a str>,
    replicas: Option<i32>,
    #[serde(borrow, default, deserialize_with = "text")]
    replica_requirements: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "text")]
    components: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "text")]
    clusters: Option<&'a str>,
    scheduler_name: Option<String>,
    suspension: Option<Suspension>,
    #[serde(borrow, default, deserialize_with = "text")]
    graceful_eviction_tasks: Option<&'a str>,
    force_rescheduling: Option<bool>,
    reschedule_triggered_at: Option<Time>,
    schedule_priority: Option<Priority>,
    workload_affinity_groups: Option<Groups>,
}

/// A cluster on which the binding is placed, or from which it is being evicted.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct PartialTarget<'a> {
    #[serde(borrow, alias = "fromCluster")]
    pub name: Cow<'a, str>,
    pub replicas: Option<i32>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Suspension {
    scheduling: Option<bool>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Priority {
    priority: Option<i32>,
}

/// The groups of a workload for workload affinity. Empty: no group.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Groups {
    pub affinity_group: String,
    pub anti_affinity_group: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status<'a> {
    last_scheduled_time: Option<Time>,
    #[serde(borrow, default, deserialize_with = "text")]
    conditions: Option<&'a str>,
    #[serde(borrow, default, deserialize_with = "text")]
    aggregated_status: Option<&'a str>,
}

/// The parts of a cluster's report that affect capacity accounting.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialReport<'a> {
    #[serde(borrow)]
    pub cluster_name: Cow<'a, str>,
    applied: Option<bool>,
    health: Option<ResourceHealth>,
    #[serde(borrow, deserialize_with = "text")]
    status: Option<&'a str>,
}

/// The numbers of a report, unparsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Numbers<'a> {
    #[serde(borrow, default)]
    replicas: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ready_replicas: Option<&'a RawValue>,
}

fn number(value: &RawValue) -> Option<i32> {
    value.get().parse().ok().filter(|number| *number >= 0)
}

impl PartialReport<'_> {
    /// Returns the number of replicas that exist on the cluster: `replicas`, or else
    /// `readyReplicas`. `None`: the report has no such number, or it is negative, fractional or out
    /// of range.
    pub fn replicas(&self) -> Option<i32> {
        let Numbers { replicas, ready_replicas } = self.status.and_then(read)?;
        replicas.or(ready_replicas).and_then(number)
    }

    /// Returns whether the report has a field for a number of replicas, regardless of its value.
    pub fn counts_replicas(&self) -> bool {
        let numbers: Option<Numbers<'_>> = self.status.and_then(read);
        numbers.is_some_and(|numbers| numbers.replicas.or(numbers.ready_replicas).is_some())
    }

    /// Returns the number of ready replicas in the report, or `None` if the field is absent. An
    /// invalid number counts as 0.
    pub fn ready_replicas(&self) -> Option<i32> {
        let numbers: Numbers<'_> = self.status.and_then(read)?;
        numbers.ready_replicas.map(|value| number(value).unwrap_or_default())
    }

    /// Returns whether the cluster reports the workload as healthy or, if it reports no health, as
    /// applied. For reports without a number of replicas.
    pub fn is_well(&self) -> bool {
        match self.health {
            Some(ResourceHealth::Healthy) => true,
            Some(ResourceHealth::Unhealthy) => false,
            _ => self.applied == Some(true),
        }
    }

    /// Returns whether a report of a kind without numbers shows that the assignment has arrived on
    /// the cluster. A report with an invalid number shows nothing. Differs from Karmada (D132).
    pub fn has_arrived(&self) -> bool {
        !self.counts_replicas() && (self.applied == Some(true) || self.health == Some(ResourceHealth::Healthy))
    }
}

/// A condition of the binding.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct PartialCondition<'a> {
    #[serde(borrow, rename = "type", default)]
    pub type_: Cow<'a, str>,
    #[serde(borrow, default)]
    pub status: Cow<'a, str>,
    #[serde(borrow, default)]
    pub reason: Cow<'a, str>,
    #[serde(borrow, default)]
    pub message: Cow<'a, str>,
}

impl<'a> PartialBinding<'a> {
    /// Parses the text of an object. Fails if it is malformed or is not a binding.
    pub fn of(content: &'a [u8]) -> Result<PartialBinding<'a>, serde_json::Error> {
        Walk::or_parse(content, PartialBinding::walk)
    }

    /// Returns `PartialSpec::placement` of an object's text, for callers that need no other field.
    pub fn placement_of(content: &'a [u8]) -> Option<&'a str> {
        match Walk::find(content, &["spec", "placement"]) {
            Some(placement) => present(placement),
            None => PartialBinding::of(content).ok()?.spec.placement,
        }
    }

    /// Reads the same fields as the parser, from text in the form that Ballast writes. Returns
    /// `None` if the text has another form.
    fn walk(walk: &mut Walk<'a>) -> Option<PartialBinding<'a>> {
        let mut partial = PartialBinding::default();
        walk.members(|walk, name| match name {
            "metadata" => walk.members(|walk, name| {
                match name {
                    "annotations" => partial.metadata.annotations = present(walk.value()?),
                    "creationTimestamp" => partial.metadata.creation_timestamp = walk.parse()?,
                    _ => drop(walk.value()?),
                }
                Some(())
            }),
            "spec" => walk.members(|walk, name| partial.spec.take(walk, name)),
            "status" => walk.members(|walk, name| {
                match name {
                    "aggregatedStatus" => partial.status.aggregated_status = present(walk.value()?),
                    "conditions" => partial.status.conditions = present(walk.value()?),
                    "lastScheduledTime" => partial.status.last_scheduled_time = walk.parse()?,
                    _ => drop(walk.value()?),
                }
                Some(())
            }),
            _ => walk.value().map(drop),
        })?;
        Some(partial)
    }

    /// Returns the workload of the binding with this key, or `None` if the binding references none,
    /// or one of another namespace: such a binding has no effect (WH7).
    pub fn workload(&self, key: &Key) -> Option<ObjectReference> {
        self.spec.resource()?.of_binding(&key.namespace)
    }

    /// Returns whether the binding with this key references a workload of another namespace.
    pub fn is_elsewhere(&self, key: &Key) -> bool {
        self.spec.resource().is_some_and(|resource| resource.is_elsewhere(&key.namespace))
    }

    /// Returns the annotations. Empty if they are absent or malformed.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.metadata.annotations.and_then(read).unwrap_or_default()
    }

    /// Returns the placement before a failure. `None`: the binding lost no targets, or has returned
    /// to them.
    pub fn home(&self) -> Option<Home> {
        let text = self.metadata.annotations.filter(|text| text.contains(HOME))?;
        Home::of(&read(text)?)
    }

    /// Returns the desired number of replicas over all clusters. If the workload is not divided,
    /// every copy counts, including evicted copies, until the workload returns or gets a new
    /// placement.
    pub fn wanted_replicas(&self) -> i64 {
        let replicas = i64::from(self.spec.replicas().max(0));
        if self.spec.is_divided() {
            return replicas;
        }
        let copies_before = self.home().map_or(0, |home| home.targets.len() as i64);
        replicas.max(self.assigned_replicas()).max(replicas.saturating_mul(copies_before))
    }

    fn assigned_replicas(&self) -> i64 {
        self.spec.clusters().iter().map(|target| i64::from(target.replicas.unwrap_or_default().max(0))).sum()
    }

    /// Returns whether the last decision found no placement for some of its replicas. A workload
    /// with all replicas placed is not unschedulable, even if its last decision failed.
    pub fn is_unschedulable(&self) -> bool {
        let scheduled = self.conditions().into_iter().find(|condition| condition.type_ == "Scheduled");
        let has_failed = scheduled.is_some_and(|scheduled| scheduled.status != "True");
        has_failed && (self.spec.clusters().is_empty() || self.assigned_replicas() < self.wanted_replicas())
    }

    /// Returns the conditions. Empty if they are malformed.
    pub fn conditions(&self) -> Vec<PartialCondition<'a>> {
        self.status.conditions.and_then(read).unwrap_or_default()
    }

    /// Returns the reports of the clusters. Empty if they are malformed.
    pub fn reports(&self) -> Vec<PartialReport<'a>> {
        self.status.aggregated_status.and_then(read).unwrap_or_default()
    }

    /// Returns the time of the last successful pass, or else of the creation of the binding.
    pub fn placed_at(&self) -> Option<Time> {
        self.status.last_scheduled_time.or(self.metadata.creation_timestamp)
    }

    /// Returns the revision of the pending pass, or `None` if no pass is pending.
    pub fn pending_pass(&self) -> Option<Revision> {
        let text = self.metadata.annotations.filter(|text| text.contains(PENDING_PASS))?;
        let annotations: BTreeMap<String, String> = read(text)?;
        annotations.get(PENDING_PASS).map(|pending_pass| Trigger::read_pending_pass(pending_pass))
    }

    /// Returns the revision of the pending pass and the object that requested it, or `None` if no
    /// pass is pending or the requester is not recorded.
    pub fn pending_request(&self) -> Option<(Revision, core::ObjectReference)> {
        self.metadata.annotations.filter(|text| text.contains(ASKED_BY))?;
        let trigger = self.trigger();
        Some((trigger.pending_pass?, trigger.requester(self.annotations().get(ASKED_BY))?))
    }

    /// Returns the fields that determine whether the binding needs a Fresh decision.
    pub fn trigger(&self) -> Trigger {
        Trigger {
            force: self.spec.force_rescheduling == Some(true),
            triggered_at: self.spec.reschedule_triggered_at,
            last_scheduled: self.status.last_scheduled_time,
            pending_pass: self.pending_pass(),
        }
    }
}

impl<'a> PartialSpec<'a> {
    fn take(&mut self, walk: &mut Walk<'a>, name: &str) -> Option<()> {
        match name {
            "resource" => self.resource = present(walk.value()?),
            "placement" => self.placement = present(walk.value()?),
            "replicas" => self.replicas = walk.parse()?,
            "replicaRequirements" => self.replica_requirements = present(walk.value()?),
            "components" => self.components = present(walk.value()?),
            "clusters" => self.clusters = present(walk.value()?),
            "schedulerName" => self.scheduler_name = walk.parse()?,
            "gracefulEvictionTasks" => self.graceful_eviction_tasks = present(walk.value()?),
            "suspension" => self.suspension = walk.parse()?,
            "forceRescheduling" => self.force_rescheduling = walk.parse()?,
            "rescheduleTriggeredAt" => self.reschedule_triggered_at = walk.parse()?,
            "schedulePriority" => self.schedule_priority = walk.parse()?,
            "workloadAffinityGroups" => self.workload_affinity_groups = walk.parse()?,
            _ => drop(walk.value()?),
        }
        Some(())
    }

    /// Returns the reference to the bound object, as stored.
    pub(super) fn resource(&self) -> Option<ObjectReference> {
        self.resource.and_then(read)
    }

    /// Returns the JSON text of the placement, as stored.
    pub fn placement(&self) -> Option<&'a str> {
        self.placement
    }

    /// Returns the tolerations of the placement. Empty if it is malformed.
    pub fn tolerations(&self) -> Vec<Toleration> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Placement {
            cluster_tolerations: Vec<Toleration>,
        }
        self.placement.and_then(read::<Placement>).unwrap_or_default().cluster_tolerations
    }

    /// Returns whether the placement divides the replicas among the clusters. Otherwise each
    /// cluster runs all of them.
    pub fn is_divided(&self) -> bool {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Placement<'a> {
            #[serde(borrow)]
            replica_scheduling: Option<Scheduling<'a>>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Scheduling<'a> {
            #[serde(borrow)]
            replica_scheduling_type: Option<Cow<'a, str>>,
        }
        let scheduling = self.placement.and_then(read::<Placement<'_>>).unwrap_or_default().replica_scheduling;
        scheduling.and_then(|it| it.replica_scheduling_type).is_some_and(|it| it == "Divided")
    }

    /// Returns the desired number of replicas. 0 if the binding has none.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or_default()
    }

    /// Returns whether the binding has `replicaRequirements`, even if they are empty.
    pub fn has_requirements(&self) -> bool {
        self.replica_requirements.is_some()
    }

    /// Returns the JSON text of `replicaRequirements`, as stored.
    pub fn requirements(&self) -> Option<&'a str> {
        self.replica_requirements
    }

    /// Returns the JSON text of `components`, as stored.
    pub fn components(&self) -> Option<&'a str> {
        self.components
    }

    /// Returns the number of components. 0 for an object with one pod template, or if they are
    /// malformed.
    pub fn component_count(&self) -> usize {
        self.components.and_then(read::<Vec<IgnoredAny>>).map_or(0, |components| components.len())
    }

    /// Returns the targets of the binding. Empty if they are malformed.
    pub fn clusters(&self) -> Vec<PartialTarget<'a>> {
        self.clusters.and_then(read).unwrap_or_default()
    }

    /// Returns the clusters that the binding is being evicted from, with its replicas there. Empty
    /// if they are malformed.
    pub fn leaving(&self) -> Vec<PartialTarget<'a>> {
        self.graceful_eviction_tasks.and_then(read).unwrap_or_default()
    }

    /// Returns the number of eviction tasks. 0 if they are malformed.
    pub fn eviction_count(&self) -> usize {
        self.graceful_eviction_tasks.and_then(read::<Vec<IgnoredAny>>).map_or(0, |tasks| tasks.len())
    }

    /// Returns the creation time of the oldest eviction task, or `None` if no task has a valid
    /// time.
    pub fn evicted_since(&self) -> Option<Time> {
        #[derive(Deserialize)]
        struct Task {
            #[serde(default, rename = "creationTimestamp")]
            created: Option<Time>,
        }
        let tasks: Vec<Task> = self.graceful_eviction_tasks.and_then(read)?;
        tasks.into_iter().filter_map(|task| task.created).min()
    }

    /// Returns the names of the clusters that the binding is being evicted from. Empty if they are
    /// malformed.
    pub fn evicted_from(&self) -> Vec<String> {
        self.leaving().into_iter().map(|left| left.name.into_owned()).collect()
    }

    pub fn is_on(&self, cluster: &str) -> bool {
        self.clusters().iter().any(|target| target.name == cluster)
    }

    /// Returns the name of the responsible scheduler.
    pub fn scheduler_name(&self) -> &str {
        self.scheduler_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_SCHEDULER)
    }

    /// Returns whether scheduling is suspended, so that the targets do not change.
    pub fn is_suspended(&self) -> bool {
        self.suspension.as_ref().and_then(|suspension| suspension.scheduling) == Some(true)
    }

    /// Returns `spec.schedulePriority.priority`, or 0 if it is absent.
    pub fn priority(&self) -> i32 {
        self.schedule_priority.as_ref().and_then(|priority| priority.priority).unwrap_or_default()
    }

    /// Returns the groups for workload affinity, or `None` if the binding has none.
    pub fn groups(&self) -> Option<&Groups> {
        self.workload_affinity_groups.as_ref()
    }
}

fn read<'a, T: Deserialize<'a>>(value: &'a str) -> Option<T> {
    serde_json::from_str(value).ok()
}

fn present(value: &str) -> Option<&str> {
    (value != "null").then_some(value)
}

/// Returns the text of a value, unparsed.
fn text<'de: 'a, 'a, D: Deserializer<'de>>(value: D) -> Result<Option<&'a str>, D::Error> {
    Ok(Option::<&'a RawValue>::deserialize(value)?.map(RawValue::get))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use ballast_k8s::read_json;

    fn object(object: Value) -> Vec<u8> {
        object.to_string().into_bytes()
    }

    #[test]
    fn a_silent_binding_has_the_defaults() {
        let silent = object(json!({"metadata": {}, "spec": {}}));
        let PartialBinding { spec, .. } = PartialBinding::of(&silent).unwrap();
        assert!(spec.placement().is_none() && spec.clusters().is_empty() && spec.resource().is_none());
        assert_eq!((spec.scheduler_name(), spec.is_suspended(), spec.priority()), ("default-scheduler", false, 0));
        assert!(PartialBinding::of(&object(json!({"metadata": {}}))).is_ok());
        assert!(PartialBinding::of(&object(json!({"metadata": {}, "spec": {"replicas": "four"}}))).is_err());
    }

    #[test]
    fn it_says_what_the_binding_says() {
        let binding = object(json!({
            "metadata": {"annotations": {"a": "b"}},
            "spec": {
                "resource": {"apiVersion": "v1", "kind": "Secret", "name": "web"},
                "schedulePriority": {"priority": 7},
                "clusters": [{"name": "m1", "replicas": 2}, {"name": "m\"2"}],
                "placement": {"clusterTolerations": [{"key": "down"}]},
                "replicaRequirements": {},
                "components": [{}, {}],
                "schedulerName": "other",
                "suspension": {"scheduling": true},
                "forceRescheduling": true,
                "gracefulEvictionTasks": [{"fromCluster": "m3"}],
            },
            "status": {
                "conditions": [{"type": "Scheduled", "status": "True", "message": "a \"b\""}, {}],
                "lastScheduledTime": "2024-01-01T00:00:00Z",
            },
        }));
        let partial = PartialBinding::of(&binding).unwrap();
        assert_eq!(partial.annotations()["a"], "b");
        assert!(partial.trigger().force && partial.trigger().last_scheduled.is_some());
        let conditions = partial.conditions();
        let conditions: Vec<_> = conditions.iter().map(|known| (&*known.type_, &*known.status)).collect();
        assert_eq!(conditions, [("Scheduled", "True"), ("", "")]);
        let spec = partial.spec;
        assert_eq!(spec.eviction_count(), 1);
        let clusters = spec.clusters();
        let clusters: Vec<_> = clusters.iter().map(|target| (&*target.name, target.replicas)).collect();
        assert_eq!((spec.priority(), clusters), (7, vec![("m1", Some(2)), ("m\"2", None)]));
        assert_eq!(spec.placement(), Some(r#"{"clusterTolerations":[{"key":"down"}]}"#));
        assert_eq!(PartialBinding::placement_of(&binding), spec.placement());
        assert_eq!(spec.tolerations()[0].key.as_deref(), Some("down"));
        assert_eq!((spec.has_requirements(), spec.component_count()), (true, 2));
        assert_eq!((spec.scheduler_name(), spec.is_suspended()), ("other", true));
        assert_eq!(spec.resource().unwrap().kind, "Secret");
    }

    #[test]
    fn a_walk_and_the_parser_see_the_same() {
        let values = [
            json!(null),
            json!(true),
            json!(-7),
            json!("2024-01-01T00:00:00Z"),
            json!([]),
            json!([{}, null]),
            json!([{"name": "m1", "replicas": 2}, {"name": "m\"2"}]),
            json!({}),
            json!({"priority": 3, "scheduling": true, "affinityGroup": "a", "antiAffinityGroup": "b"}),
            json!({"affinityGroup": null, "priority": null}),
        ];
        let members = [
            "components",
            "clusters",
            "conditions",
            "forceRescheduling",
            "gracefulEvictionTasks",
            "lastScheduledTime",
            "placement",
            "replicaRequirements",
            "replicas",
            "rescheduleTriggeredAt",
            "resource",
            "schedulePriority",
            "schedulerName",
            "suspension",
            "unknown",
            "workloadAffinityGroups",
        ];
        let mut walked = 0;
        for value in values {
            for member in members {
                let annotations = json!({"annotations": value, "name": "web"});
                let part = json!({member: value});
                for binding in [
                    json!({"kind": "K", "metadata": annotations, "spec": part, "status": {}}),
                    json!({"metadata": {}, "spec": {}, "status": part}),
                    json!({"metadata": value, "spec": value, "status": value}),
                ] {
                    let content = object(binding);
                    let parsed = read_json::<PartialBinding<'_>>(&content).ok();
                    let walk = Walk::over(&content, PartialBinding::walk);
                    if let Some(parsed) = &parsed {
                        assert_eq!(PartialBinding::placement_of(&content), parsed.spec.placement, "{member}: {value}");
                    }
                    walked += usize::from(walk.is_some());
                    // The parser reads texts that the walk rejects.
                    assert!(walk.is_none() || walk == parsed, "{}", String::from_utf8_lossy(&content));
                    assert!(parsed.is_none() || walk.is_some() || value.is_array() || value.is_null());
                }
            }
        }
        assert!(walked > 200, "{walked}");
    }
}
