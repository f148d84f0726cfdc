//! The decision about a workload: the clusters of a Karmada binding, or of all bindings of a
//! KubeFleet placement.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::subject::{PLACEMENTS, SLICE};
use super::{Inventory, Wanted, owner_of, profile};
use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, placement_of};
use ballast_api::fleet::placement::v1beta1::names::binding_prefix;
use ballast_api::multicluster::v1alpha1::{
    DECISION_INDEX_LABEL, DECISION_KEY_LABEL, PLACEMENT_DECISIONS, PLACEMENT_KEY_LABEL, PlacementDecision,
};
use ballast_k8s::{Key, Object, read_json};
use ballast_watch::View;

/// The most clusters of a slice, as in upstream's schema.
pub(crate) const SLICE_CLUSTERS_MAX: usize = 100;
/// The most bytes of a label's value.
const LABEL_BYTES_MAX: usize = 63;
/// The most bytes of an object's name.
const NAME_BYTES_MAX: usize = 253;
/// The reason of a target of a Karmada binding. The condition Scheduled of the binding has details.
const SCHEDULED: &str = "Scheduled";
/// The reason of a cluster that the workload is being evicted from. Its copy stays until the
/// eviction task ends. Programs that follow decisions remove the copies on other clusters.
const EVICTING: &str = "BeingEvicted";

/// The fields of a Karmada binding that determine its decision. A write that changes none of them
/// changes no decision.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Decided {
    spec: Spec,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    clusters: Vec<Target>,
    graceful_eviction_tasks: Vec<EvictionTask>,
    resource: Workload,
    scheduler_name: String,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Target {
    name: String,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EvictionTask {
    from_cluster: String,
    purge_mode: String,
}

impl EvictionTask {
    /// Returns whether the copy stays until the task ends.
    fn keeps_copy(&self) -> bool {
        !matches!(&*self.purge_mode, "Directly" | "Immediately")
    }
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Workload {
    kind: String,
    name: String,
}

impl Decided {
    pub fn of(binding: &Object) -> Decided {
        read_json(&binding.text.content()).unwrap_or_default()
    }
}

/// The fields of a KubeFleet binding that determine its decision.
#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct FleetDecided {
    spec: FleetSpec,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FleetSpec {
    state: String,
    target_cluster: String,
    cluster_decision: FleetReason,
}

#[derive(Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct FleetReason {
    reason: String,
}

impl FleetDecided {
    pub fn of(binding: &Object) -> FleetDecided {
        read_json(&binding.text.content()).unwrap_or_default()
    }
}

/// Returns the desired decisions in this namespace, about the placements with this name.
pub(crate) fn wanted(inventory: &Inventory, view: &View, namespace: &Arc<str>, name: &Arc<str>) -> Vec<Wanted> {
    let sources = PLACEMENTS.into_iter().filter_map(|(kind, suffix)| {
        let key = Key { resource: kind, namespace: Arc::clone(namespace), name: Arc::clone(name) };
        let in_namespace = view.get(&key);
        let of_cluster = || view.get(&Key::cluster(kind, &**name)).filter(|_| *namespace == inventory.namespace);
        Some((in_namespace.or_else(of_cluster)?, suffix))
    });
    let told = sources.enumerate().flat_map(|(at, (source, suffix))| {
        let suffix = if at == 0 { "" } else { suffix };
        slices(inventory, view, namespace, format!("{name}{suffix}"), source)
    });
    told.collect()
}

fn slices(inventory: &Inventory, view: &View, namespace: &Arc<str>, name: String, source: &Arc<Object>) -> Vec<Wanted> {
    let Decision { clusters, workload, scheduler } = match PlacementKinds::of(source.key.resource) {
        Some(kinds) => of_fleet_placement(inventory, view, kinds, &source.key),
        None => of_binding(inventory, source),
    };
    let key = |index: usize| {
        let name = if index == 0 { name.clone() } else { format!("{name}{SLICE}{index}") };
        Key::namespaced(PLACEMENT_DECISIONS, Arc::clone(namespace), name)
    };
    let known = |index| view.get(&key(index)).filter(|told| owner_of(told) == Some(&*source.uid));
    // Usually a decision has one slice before and after. Then the current one need not be parsed.
    let is_one = clusters.len() <= SLICE_CLUSTERS_MAX && known(1).is_none();
    let known = (0..).map_while(|index| known(index).filter(|_| !is_one)).map(|told| profiles_of(told));
    let slice = |(index, clusters): (usize, Vec<(String, String)>)| {
        let decisions = clusters.into_iter().map(|(profile, reason)| {
            let profile = json!({"name": profile, "namespace": &*inventory.namespace});
            json!({"clusterProfileRef": profile, "reason": reason})
        });
        let mut labels = Map::new();
        labels.insert(DECISION_KEY_LABEL.to_owned(), (&*source.uid).into());
        labels.insert(DECISION_INDEX_LABEL.to_owned(), index.to_string().into());
        labels.extend(workload.clone().map(|workload| (PLACEMENT_KEY_LABEL.to_owned(), workload.into())));
        let members: [(&str, Value); 3] = [
            ("kind", "PlacementDecision".into()),
            ("decisions", decisions.collect()),
            ("schedulerName", scheduler.clone().into()),
        ];
        Wanted {
            key: key(index),
            owner: source.uid.clone(),
            labels,
            members: members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    };
    let told = parts(clusters, known).into_iter().enumerate().map(slice);
    told.filter(|wanted| wanted.key.name.len() <= NAME_BYTES_MAX).collect()
}

/// Divides the clusters among slices. `known` contains the clusters of the current slices. Each
/// cluster stays in its slice, and a new one goes into the first slice with space. So a reader that
/// sees the slices change one after another misses no cluster, and sees none twice.
///
/// The numbers of slices have no gaps: an empty slice stays while a later one has clusters. There
/// is a slice even if there are no clusters.
fn parts(
    mut clusters: BTreeMap<String, String>,
    known: impl Iterator<Item = Vec<String>>,
) -> Vec<Vec<(String, String)>> {
    let stays = |names: Vec<String>| -> Vec<(String, String)> {
        names.into_iter().filter_map(|name| clusters.remove_entry(&name)).take(SLICE_CLUSTERS_MAX).collect()
    };
    let mut parts: Vec<_> = known.map(stays).collect();
    let mut at = 0;
    for cluster in clusters {
        while parts.get(at).is_some_and(|part| part.len() >= SLICE_CLUSTERS_MAX) {
            at += 1;
        }
        if at == parts.len() {
            parts.push(Vec::new());
        }
        parts[at].push(cluster);
    }
    while parts.len() > 1 && parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    parts.iter_mut().for_each(|part| part.sort_unstable());
    parts
}

/// Returns the profiles that a slice lists.
fn profiles_of(slice: &Object) -> Vec<String> {
    let slice: PlacementDecision = read_json(&slice.text.content()).unwrap_or_default();
    slice.decisions.into_iter().filter_map(|decision| decision.cluster_profile_ref.name).collect()
}

struct Decision {
    /// The profiles of the clusters, with the reason of each.
    clusters: BTreeMap<String, String>,
    workload: Option<String>,
    scheduler: String,
}

fn of_binding(inventory: &Inventory, binding: &Object) -> Decision {
    let Decided { spec } = Decided::of(binding);
    let evicting = spec.graceful_eviction_tasks.into_iter().filter(EvictionTask::keeps_copy);
    let evicting = evicting.map(|task| (task.from_cluster, EVICTING.to_owned()));
    // A target that the workload returns to during its eviction has the reason of a target.
    let clusters =
        evicting.chain(spec.clusters.into_iter().map(|target| (target.name, SCHEDULED.to_owned()))).collect();
    let scheduler = if spec.scheduler_name.is_empty() { inventory.scheduler.to_string() } else { spec.scheduler_name };
    let Workload { kind, name } = spec.resource;
    let workload = (!kind.is_empty()).then(|| label_value(format!("{kind}.{name}")));
    Decision { clusters, workload, scheduler }
}

fn of_fleet_placement(inventory: &Inventory, view: &View, kinds: &PlacementKinds, placement: &Key) -> Decision {
    let named_alike = view.list_prefixed(kinds.bindings, &placement.namespace, binding_prefix(&placement.name));
    let bindings = named_alike.filter(|binding| placement_of(binding).as_ref() == Some(placement));
    let chosen = bindings.map(|binding| FleetDecided::of(binding).spec).filter(|spec| spec.state != "Unscheduled");
    let clusters =
        chosen.map(|spec| (profile::name_of_member(view, &spec.target_cluster), spec.cluster_decision.reason));
    Decision { clusters: clusters.collect(), workload: None, scheduler: inventory.scheduler.to_string() }
}

/// Converts a text to the value of a label. A long text is cut.
fn label_value(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LABEL_BYTES_MAX));
    text.truncate(text.trim_end_matches(|last: char| !last.is_ascii_alphanumeric()).len());
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decided(names: impl IntoIterator<Item = usize>) -> BTreeMap<String, String> {
        names.into_iter().map(|number| (format!("m{number:03}"), SCHEDULED.to_owned())).collect()
    }

    fn names(parts: &[Vec<(String, String)>]) -> Vec<Vec<String>> {
        parts.iter().map(|part| part.iter().map(|(name, _)| name.clone()).collect()).collect()
    }

    #[test]
    fn a_cluster_that_joins_moves_no_other_one() {
        let before = names(&parts(decided(1..=150), std::iter::empty()));
        assert_eq!(before.iter().map(Vec::len).collect::<Vec<_>>(), [100, 50]);
        let after = names(&parts(decided(0..=150), before.iter().cloned()));
        assert_eq!(after[0], before[0]);
        assert!(after[1].contains(&"m000".to_owned()) && after[1].len() == 51);
        // Clusters that leave the first slice make space there, and the second slice stays
        // unchanged.
        let fewer = names(&parts(decided(120..=150), after.iter().cloned()));
        assert_eq!((fewer.len(), fewer[0].len(), fewer[1].len()), (2, 0, 31));
        assert_eq!(names(&parts(decided([]), fewer.into_iter())), [Vec::<String>::new()]);
    }

    proptest! {
        /// Each cluster is in one slice at each step, and stays in it while the decision contains
        /// it.
        #[test]
        fn slices_are_stable(steps in prop::collection::vec(prop::collection::btree_set(0_usize..400, 0..350), 1..8)) {
            let mut known: Vec<Vec<String>> = Vec::new();
            for wanted in steps {
                let wanted = decided(wanted);
                let slices = names(&parts(wanted.clone(), known.iter().cloned()));
                let mut all: Vec<&String> = slices.iter().flatten().collect();
                all.sort();
                prop_assert_eq!(all, wanted.keys().collect::<Vec<_>>());
                prop_assert!(slices.iter().all(|slice| slice.len() <= SLICE_CLUSTERS_MAX));
                for (index, slice) in known.iter().enumerate() {
                    for name in slice.iter().filter(|name| wanted.contains_key(*name)) {
                        prop_assert!(slices[index].contains(name));
                    }
                }
                known = slices;
            }
        }
    }
}
